// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/plan/plan.h"

#include <algorithm>

namespace headroom {

double gapTo(double boundMs, double recomputeMs)
{
    return recomputeMs > 0 ? std::max(0.0, (recomputeMs - boundMs) / recomputeMs) : 0;
}

Status checkWorldSize(const PlanRequest& request)
{
    if (request.worldSize < 1)
        return badInput("world size " + std::to_string(request.worldSize) + ": expected 1 or more");
    return {};
}

std::string_view planStatusName(PlanStatus status)
{
    switch (status) {
    case PlanStatus::optimal:
        return "optimal";
    case PlanStatus::feasible:
        return "feasible";
    case PlanStatus::infeasible:
        return "infeasible";
    case PlanStatus::stopped:
        return "stopped";
    }
    return "";
}

} // namespace headroom
