// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <string_view>

namespace headroom {

/// The text of resources/devices.json at configure time.
std::string_view devicesJson();
/// The same of resources/topologies.json.
std::string_view topologiesJson();

} // namespace headroom
