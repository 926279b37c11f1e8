// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/sac/module_info.h"

#include <string>
#include <vector>

namespace headroom {

/// How two ModuleInfos may differ.
struct ModuleInfoTolerance
{
    double ms = 1e-9; ///< of times
    double curve = 0; ///< of points of the trade-off curves
    double fit = 1e-6; ///< of fits: a residual larger than the expected by this, squared, is a difference
    bool orders = true; ///< compare mod_order
};

/// What in `actual` is not as in `expected`, one sentence each, at most 40: memory and counts to the byte, times and
/// fits within the tolerance. Empty: they are equal. Fits are compared by their squared residual: pwlf's random search
/// leaves a breakpoint open where several are as good.
std::vector<std::string> moduleInfoDifferences(const ModuleInfo& actual, const ModuleInfo& expected,
                                               const ModuleInfoTolerance& tolerance = {});

} // namespace headroom
