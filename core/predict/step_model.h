// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/predict/predict.h"
#include "core/predict/step_index.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace headroom {

/// A recorded step with everything computed that predictions of all plans share. Immutable; cheap to copy; any thread
/// may call it.
class StepModel
{
public:
    StepModel(StepTracePtr trace); ///< implicit, for a caller that predicts once

    const StepTracePtr& trace() const noexcept { return trace_; }
    const TimelinePtr& recorded() const noexcept { return recorded_; } ///< the step without a plan

    /// By change of recorded(): the event that caused it, ascending.
    const std::vector<std::uint32_t>& recordedEvents() const noexcept { return *events_; }
    const StepIndex& index() const noexcept { return *index_; }

    /// Like the functions of the same name in predict.h.
    Result<Timeline> predict(const CheckpointPlan& plan) const;
    /// By region of the plan: the HeldBytes of each call of its module, in order. Errors: as predict().
    Result<std::vector<std::vector<HeldBytes>>> heldBytes(const CheckpointPlan& plan) const;
    std::vector<OpId> regionOps(ModuleId module) const;
    std::vector<bool> savableOps(ModuleId module) const;

    /// Whether no op of the module may be saved because ops of tensor subclasses (opInSubclass) run in it.
    bool isWholeOnly(ModuleId module) const;

private:
    StepTracePtr trace_;
    std::shared_ptr<const StepIndex> index_;
    TimelinePtr recorded_;
    std::shared_ptr<const std::vector<std::uint32_t>> events_;
};

} // namespace headroom
