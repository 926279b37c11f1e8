// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/trace/memory_event.h"

#include <cstdint>
#include <vector>

namespace headroom {

/// What a replayed step does module by module. Submodules are included.
struct ModuleTally
{
    /// By turn from forward to backward, by module: what is alive there of all that its ops made in forward. A step
    /// that was interrupted before its first turn has its end in place of one.
    std::vector<std::vector<Bytes>> held;
    std::vector<double> recomputeMs; ///< by module: time of its ops that run a second time
};

/// The storages of a step while it is replayed, each alive as long as someone holds it, by the module whose op made
/// them in forward: a Memory of replays, as LiveMemory is, that counts bytes by module instead of following them in
/// time. A recomputed copy counts where its original does.
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
    std::vector<Bytes> own_; ///< by module, alive now, without submodules; the last: of all that no forward op made
    std::vector<std::vector<Bytes>> turns_;
    std::vector<double> recomputeMs_; ///< by module, without submodules
    OpId op_;
};

} // namespace headroom
