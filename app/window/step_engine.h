// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/policy/card_planner.h"
#include "core/predict/step_clock.h"

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

namespace headroom {

/// The window's interface to the planner of one recorded step: StepPlanner's functions as virtual functions, so that
/// tests of the window can replace the solver. Immutable; any thread may call every function.
class StepEngine
{
public:
    virtual ~StepEngine() = default;

    virtual const StepModel& model() const noexcept = 0;
    const StepTracePtr& trace() const noexcept { return model().trace(); }
    const TimelinePtr& recorded() const noexcept { return model().recorded(); }
    virtual const ModuleInfoPtr& moduleInfo() const noexcept = 0;
    virtual const ModuleEffects& effects() const noexcept = 0;

    /// The best plan found in about `limitMs`, with its gap.
    virtual Result<PlannedStep> solve(const PlanRequest& request, std::stop_token stop, double limitMs) const = 0;
    virtual Result<std::vector<FrontierPoint>> frontier(const PlanRequest& request, int points, std::stop_token stop,
                                                        const FrontierWatch& grown) const = 0;
    virtual Result<std::vector<ModuleWay>> ways(ModuleId module) const = 0;
    virtual Result<PlanOnCard> planForCard(const PlanRequest& request, const Card& card,
                                           std::stop_token stop) const = 0;
    virtual Result<std::optional<BetterSettings>> betterSettings(const PlanRequest& request, const Card& card,
                                                                 const PlanOnCard& found,
                                                                 std::stop_token stop) const = 0;

    /// The clock of the step under a plan, by one replay; nullopt: the step has none (hasClock()).
    std::optional<StepClock> clock(const CheckpointPlan& plan) const
    {
        if (!hasClock(*trace()))
            return std::nullopt;
        const Result<StepClock> clock = clockOf(*trace(), model().index(), plan);
        return clock ? std::optional(*clock) : std::nullopt;
    }

protected:
    StepEngine() = default;
    StepEngine(const StepEngine&) = delete;
    StepEngine& operator=(const StepEngine&) = delete;
};

using StepEnginePtr = std::shared_ptr<const StepEngine>;
using StepEngineFactory = std::function<Result<StepEnginePtr>(StepTracePtr)>;

} // namespace headroom
