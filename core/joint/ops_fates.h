// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/joint/ops_planner.h"

#include <vector>

namespace headroom {

/// What a plan does with an op of forward.
enum class OpFate : std::uint8_t {
    none, ///< backward needs no result of it, or the program holds it anyway
    saved, ///< one of its results is held until backward
    again, ///< runs again in backward
};

/// Returns the fate of each op, by OpId.
std::vector<OpFate> opFates(const StepTrace& trace, const OpsPlan& plan);

/// An op whose fate or held bytes differ between two plans.
struct OpFlip
{
    OpId op;
    OpFate before = OpFate::none;
    OpFate now = OpFate::none;
    Bytes bytes = 0; ///< held bytes of its results, before minus now
};

/// Returns the differences of `now` from `before`; ops ascending.
std::vector<OpFlip> opFlips(const StepTrace& trace, const OpsPlan& before, const OpsPlan& now);

/// Returns the plan without recomputation: the step as recorded. It may save more than the default min-cut does.
OpsPlan planAsRecorded(const OpsPlanner& planner);

} // namespace headroom
