// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <string_view>

namespace headroom {

// The texts of resources/devices.json, kernel_times.json and topologies.json at configure time.
std::string_view devicesJson();
std::string_view kernelTimesJson();
std::string_view topologiesJson();

} // namespace headroom
