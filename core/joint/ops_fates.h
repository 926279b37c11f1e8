// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/joint/ops_planner.h"

#include <vector>

namespace headroom {

/// What a plan does with an op of forward.
enum class OpFate : std::uint8_t {
    none, ///< backward asks for nothing of it, or the program holds it anyway
    saved, ///< a result of it is held until backward
    again, ///< runs again in backward
};

/// By OpId.
std::vector<OpFate> opFates(const StepTrace& trace, const OpsPlan& plan);

/// An op whose fate is another one in another plan.
struct OpFlip
{
    OpId op;
    OpFate before = OpFate::none;
    OpFate now = OpFate::none;
    Bytes bytes = 0; ///< of its results that are held, less than before; negative: more
};

/// What is new in `now`; ops ascending.
std::vector<OpFlip> opFlips(const StepTrace& trace, const OpsPlan& before, const OpsPlan& now);

/// The plan in which nothing runs again: the step as it was recorded. It may keep more than the default min-cut does.
OpsPlan planAsRecorded(const OpsPlanner& planner);

} // namespace headroom
