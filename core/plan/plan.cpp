// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/plan/plan.h"

namespace headroom {

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
