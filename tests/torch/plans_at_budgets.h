// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/policy/step_planner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

namespace headroom {

/// Ten budgets from the least that a plan can meet to just below the step without one; all the same when nothing that
/// is saved for backward is alive at the step's peak.
inline std::vector<PlanAnswer> plansAtTenBudgets(const StepTracePtr& trace)
{
    const auto planner = StepPlanner::create(trace);
    if (!planner)
        throw std::runtime_error(planner.error().message);
    PlanRequest request;
    request.budget = 1;
    const auto none = planner->solve(request);
    const Bytes least = none->plan.leastBudget;
    const Bytes most = planner->recorded()->peak;
    std::vector<PlanAnswer> plans;
    for (int i = 0; i < 10; ++i) {
        request.budget = least + std::max<Bytes>(most - 1 - least, 0) * i / 9;
        auto planned = planner->solve(request);
        if (!planned)
            throw std::runtime_error(planned.error().message);
        plans.push_back(std::move(*planned));
    }
    return plans;
}

} // namespace headroom
