// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/window/open_step.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <vector>

namespace headroom {

/// A planner for tests of the window: as many whole blocks as the budget asks for are checkpointed, first ones first,
/// and what that does is predicted on the step. Its answers are exact, its plans are not the best ones.
class BlockEngine : public StepEngine
{
public:
    /// How long every solve takes, and how often one was stopped: shared with the test.
    struct Control
    {
        std::atomic<bool> hold = false; ///< a solve that has begun waits for the end of this
        std::atomic<int> solveMs = 0; ///< at least
        std::atomic<int> solves = 0;
        std::atomic<int> stopped = 0;
        std::atomic<double> proofMs = 0; ///< with a limit below it, a plan is not proven
        std::atomic<bool> holdCard = false; ///< a plan for a card waits for the end of this
        std::atomic<bool> holdFrontier = false; ///< one whose ends are told waits for the end of this
    };

    static Result<StepEnginePtr> create(StepTracePtr trace, std::shared_ptr<Control> control = {});

    const StepModel& model() const noexcept override { return model_; }
    const ModuleInfoPtr& moduleInfo() const noexcept override { return info_; }
    const ModuleEffects& effects() const noexcept override { return effects_; }
    Result<PlanAnswer> solve(const PlanRequest& request, std::stop_token stop, double limitMs) const override;
    Result<std::vector<FrontierPoint>> frontier(const PlanRequest& request, int points, std::stop_token stop,
                                                const FrontierWatch& grown) const override;
    Result<std::vector<ModuleOption>> moduleOptions(ModuleId module) const override; ///< a block: all or nothing
    /// The plan of most blocks kept that runs; settings are better if they make a plan possible, or keep more.
    Result<PlanAnswer> planForCard(const PlanRequest& request, const CardPtr& card,
                                   std::stop_token stop) const override;
    Result<std::optional<BetterSettings>> betterSettings(const PlanRequest& request, const PlanAnswer& found,
                                                         std::stop_token stop) const override;

private:
    explicit BlockEngine(StepModel model);
    Result<std::vector<ModuleId>> freeBlocks(const PlanRequest& request, std::vector<ModuleId>& forced) const;
    PlanAnswer planned(const PlanRequest& request, const std::vector<ModuleId>& chosen) const;
    bool wait(const std::stop_token& stop) const; ///< false: stopped

    StepModel model_;
    ModuleInfoPtr info_;
    ModuleEffects effects_;
    std::vector<ModuleId> blocks_;
    std::shared_ptr<Control> control_;
};

} // namespace headroom
