// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/predict/predict.h"
#include "core/predict/step_index.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace headroom {

/// A recorded step, with all computed data that predictions of all plans share. Immutable; cheap to copy; any thread
/// may use the model.
class StepModel
{
public:
    StepModel(StepTracePtr trace);

    /// A model of the caller's trace. The trace must outlive the model.
    explicit StepModel(const StepTrace& trace)
        : StepModel(StepTracePtr(StepTracePtr(), &trace))
    {
    }

    const StepTracePtr& trace() const noexcept { return trace_; }
    const TimelinePtr& recorded() const noexcept { return recorded_; } ///< the step without a plan

    /// By change of recorded(): the event that caused the change, ascending.
    const std::vector<std::uint32_t>& recordedEvents() const noexcept { return *events_; }
    const StepIndex& index() const noexcept { return *index_; }

    /// Does what predict() in predict.h does, but all plans share this model's index. Error: as predict() in predict.h.
    Result<Timeline> predict(const CheckpointPlan& plan) const;
    /// By region of the plan: the HeldBytes of each call of the module, in order. Error: as predict().
    Result<std::vector<std::vector<HeldBytes>>> heldBytes(const CheckpointPlan& plan) const;

    /// The ops that CheckpointRegion::save lists: the ops of the module's first call that saves a tensor for backward,
    /// in order, submodules' ops included, SAC_IGNORED_OPS left out.
    std::vector<OpId> regionOps(ModuleId module) const;

    /// By regionOps(): whether the op may be saved. Such an op allocates its outputs, and nothing changes the outputs
    /// later. Views, aliases and in-place ops may not be saved, since PyTorch raises or the values would be wrong. No
    /// op may be saved if several backward passes use the module (PyTorch frees the saved outputs in the first), or if
    /// ops of tensor subclasses run in the module.
    std::vector<bool> savableOps(ModuleId module) const;

    /// Whether no op of the module may be saved because ops of tensor subclasses (opInSubclass) run inside.
    bool isWholeOnly(ModuleId module) const;

private:
    StepTracePtr trace_;
    std::shared_ptr<const StepIndex> index_;
    TimelinePtr recorded_;
    std::shared_ptr<const std::vector<std::uint32_t>> events_;
};

} // namespace headroom
