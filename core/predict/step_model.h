// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/predict/predict.h"
#include "core/predict/step_index.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace headroom {

/// A recorded step, ready to be asked for its timeline under plan after plan: what all predictions share is computed
/// once. Immutable; a copy is cheap; any thread may ask.
class StepModel
{
public:
    StepModel(StepTracePtr trace); ///< implicit: who asks once has only the step

    const StepTracePtr& trace() const noexcept { return trace_; }
    const TimelinePtr& recorded() const noexcept { return recorded_; } ///< the step without a plan

    /// By change of recorded(): the event that made it, ascending.
    const std::vector<std::uint32_t>& recordedEvents() const noexcept { return *events_; }
    const StepIndex& index() const noexcept { return *index_; }

    /// As the functions of the same name in predict.h.
    Result<Timeline> predict(const CheckpointPlan& plan) const;
    /// By region of the plan: one of each of its module's calls, in their order. As predict().
    Result<std::vector<std::vector<HeldBytes>>> heldBytes(const CheckpointPlan& plan) const;
    std::vector<OpId> regionOps(ModuleId module) const;
    std::vector<bool> savableOps(ModuleId module) const;

    /// Whether all of it runs again where it is checkpointed, since ops run inside of tensor subclasses (opInSubclass).
    bool isWholeOnly(ModuleId module) const;

private:
    StepTracePtr trace_;
    std::shared_ptr<const StepIndex> index_;
    TimelinePtr recorded_;
    std::shared_ptr<const std::vector<std::uint32_t>> events_;
};

} // namespace headroom
