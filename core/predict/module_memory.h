// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/predict/step_model.h"
#include "core/trace/memory_event.h"

#include <cstdint>
#include <vector>

namespace headroom {

/// Adds the value of each module to all modules that contain it. In a trace, parents come before children.
template <class Value>
void addToParents(const StepTrace& trace, std::vector<Value>& values)
{
    for (std::size_t i = trace.modules.size(); i-- > 1;)
        if (const ModuleId parent = trace.modules.parent[ModuleId(static_cast<std::uint32_t>(i))]; parent.valid())
            values[parent.value] += values[i];
}

/// Memory and recompute time of a replayed step by module, submodules included.
struct ModuleTally
{
    /// held[boundary][module]: bytes that the module's ops allocated in forward and that are alive at a boundary from
    /// forward to backward. For a step that was interrupted before the first boundary, the end of the step counts as
    /// the boundary.
    std::vector<std::vector<Bytes>> held;
    std::vector<double> recomputeMs; ///< by module: time of its recomputed ops
};

/// The Memory of replays that counts live bytes by module: the bytes belong to the module of the allocating forward op.
/// Builds no Timeline, unlike LiveMemory. A recomputed copy counts for the module of its original.
class ModuleMemory : public TimelessMemory
{
public:
    using Block = std::uint32_t;

    explicit ModuleMemory(const StepTrace& trace);

    void hold(Block block)
    {
        State& state = blocks_[block];
        if (state.hold())
            own_[state.module] += state.bytes;
    }
    void drop(Block block)
    {
        State& state = blocks_[block];
        if (state.drop())
            own_[state.module] -= state.bytes;
    }
    Block addCopy(StorageId original, Bytes bytes)
    {
        blocks_.push_back({{bytes}, blocks_[original.value].module});
        return static_cast<Block>(blocks_.size() - 1);
    }
    void resize(Block block, Bytes bytes);

    void beginOp(OpId op, double) { op_ = op; }
    void addRecomputeMs(double ms) { recomputeMs_[moduleOf(op_)] += ms; }
    void mark(Mark mark);

    ModuleTally finish() &&;

private:
    std::uint32_t moduleOf(OpId op) const;

    struct State : HeldBlock
    {
        std::uint32_t module = 0;
    };
    const StepTrace& trace_;
    std::vector<State> blocks_; ///< the storages, then the copies
    std::vector<Bytes> own_; ///< by module: live bytes, without submodules; last: bytes of no forward op
    std::vector<std::vector<Bytes>> turns_;
    std::vector<double> recomputeMs_; ///< by module, without submodules
    OpId op_;
};

struct Regions;

/// Effect of a plan on a module, submodules included. Counted are bytes that the module's ops allocated in forward and
/// that are alive when forward ends and backward begins: saved for backward, held by a checkpoint (arguments, cached
/// outputs of saved ops), or held by the program. A step with several backward passes (gradient accumulation, several
/// losses) has several such boundaries. Then both figures belong to the boundary where the recorded step holds most of
/// the module's bytes; the first boundary wins a tie.
struct ModuleEffect
{
    Bytes recorded = 0; ///< bytes alive in the recorded step
    Bytes kept = 0; ///< bytes alive under the plan
    double recomputeMs = 0; ///< time of the module's ops that run a second time, in the whole step
};

/// The share of the module's recorded bytes that the plan frees, 0 to 1. A result with other holders stays alive: the
/// result of a checkpointed layer is an argument of the next layer.
double discardedShare(const ModuleEffect& effect);

/// By ModuleId: combines the tally of the recorded step with that of the step under a plan.
std::vector<ModuleEffect> moduleEffects(const ModuleTally& recorded, const ModuleTally& planned);

/// Computes the ModuleEffect of each module of a step, by the rules of predict(): the root's recomputeMs equals
/// predict()'s, and the root's bytes differ as the timelines do at the boundary. Built once for a step; of() takes less
/// time than predict(). Immutable; any thread may call of().
class ModuleEffects
{
public:
    explicit ModuleEffects(StepModel model);

    /// By ModuleId: the effects of the empty plan.
    const std::vector<ModuleEffect>& recorded() const noexcept { return recorded_; }

    /// By ModuleId: the effects of a plan. Error: as predict().
    Result<std::vector<ModuleEffect>> of(const CheckpointPlan& plan) const;

private:
    ModuleTally replayed(const Regions& plan) const;

    StepModel model_;
    std::vector<std::uint32_t> events_; ///< events of the trace that a tally depends on
    ModuleTally tally_; ///< tally of the recorded step
    std::vector<ModuleEffect> recorded_;
};

} // namespace headroom
