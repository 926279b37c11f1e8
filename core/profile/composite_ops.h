// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <string_view>

namespace headroom {

/// The text of resources/composite_ops.txt at configuration time.
std::string_view compositeOps();

} // namespace headroom
