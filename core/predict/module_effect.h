// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/predict/predict.h"

#include <memory>
#include <span>
#include <vector>

namespace headroom {

/// What a plan does to one module, its submodules included. Bytes are those of storages that the module's own ops made
/// in forward, each counted once.
struct ModuleEffect
{
    Bytes recorded = 0; ///< saved for backward in the recorded step
    Bytes kept = 0; ///< held from forward to backward under the plan: saved for backward, cached outputs of saved ops,
                    ///< arguments of checkpointed modules
    double recomputeMs = 0; ///< time of the module's ops that run a second time
};

/// Tells for each module of one step where a plan saves memory and where it takes time. Built once for a step: keeps
/// only what the forward did, so that of() costs a fraction of predict(). Immutable; of() may run on any thread.
class ModuleEffects
{
public:
    explicit ModuleEffects(StepTracePtr trace);

    /// By ModuleId. The regions must be valid ones, as predict() accepts them.
    std::vector<ModuleEffect> of(const CheckpointPlan& plan) const;

    /// The same of a plan for single ops. `held` by StorageId: from forward to backward. `again`: ops that run a second
    /// time.
    std::vector<ModuleEffect> of(const std::vector<bool>& held, std::span<const OpId> again) const;

private:
    struct ForwardEvent
    {
        EventKind kind; ///< enter, exit, opEnd, pack
        std::uint32_t id; ///< CallId, OpId, StorageId
    };
    class Replay;

    StepTracePtr trace_;
    std::vector<ForwardEvent> forward_;
    std::vector<StorageId> packed_; ///< made in forward and saved for backward, each once
};

} // namespace headroom
