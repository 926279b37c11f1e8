// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/plan/plan.h"
#include "core/policy/card_planner.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace headroom {

struct PlanAnswer;

/// The user's choice of the card on which training has to run.
struct CardChoice
{
    static constexpr const char* none = "none"; ///< a value of `card`: budgets are judged by their bytes alone

    std::string card; ///< the name of a GPU, a size, or `none`; empty: the GPU of the step
    std::optional<std::string> settings; ///< as in PYTORCH_CUDA_ALLOC_CONF; nullopt: the recorded program's

    bool operator==(const CardChoice&) const = default;
};

using CardPtr = std::shared_ptr<const Card>;

/// A training run on a card under a shown plan. Immutable.
struct CardVerdict
{
    CardPtr card;
    std::shared_ptr<const PlanAnswer> of;
    CardRun run;
};
using CardVerdictPtr = std::shared_ptr<const CardVerdict>;

/// The plan by modules for a card. Immutable.
struct CardPlan
{
    CardPtr card;
    std::map<std::string, Pin> pins; ///< of the request
    PlanOnCard found;
    std::optional<BetterSettings> better; ///< of the allocator
    bool complete = false; ///< false: better settings are still being searched

    /// The budget that stands for the plan: its peak; 0: no plan runs.
    Bytes budget() const noexcept { return found.run.runs ? found.planned.plan.peak : 0; }
};
using CardPlanPtr = std::shared_ptr<const CardPlan>;

/// Which plans by modules of a frontier run on a card. Immutable.
struct CardPoints
{
    CardPtr card;
    std::shared_ptr<const std::vector<FrontierPoint>> of;
    std::vector<Bytes> failing; ///< peaks of the points whose plans run out of memory, ascending
};
using CardPointsPtr = std::shared_ptr<const CardPoints>;

} // namespace headroom
