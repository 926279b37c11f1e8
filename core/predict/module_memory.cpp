// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/predict/module_memory.h"

#include <utility>

namespace headroom {

ModuleMemory::ModuleMemory(const StepTrace& trace)
    : trace_(trace)
    , own_(trace.modules.size() + 1)
    , recomputeMs_(trace.modules.size())
{
    const auto none = static_cast<std::uint32_t>(trace.modules.size());
    blocks_.reserve(2 * trace.storages.size()); // room for what a plan adds
    for (std::size_t i = 0; i < trace.storages.size(); ++i) {
        const StorageId storage(static_cast<std::uint32_t>(i));
        const OpId creator = trace.storages.creator[storage];
        const bool inForward = creator.valid() && trace.ops.phase[creator] == Phase::forward;
        blocks_.push_back({{trace.storages.bytes[storage]}, inForward ? moduleOf(creator) : none});
    }
}

/// An op outside of every module counts for the model.
std::uint32_t ModuleMemory::moduleOf(OpId op) const
{
    const ModuleId module = trace_.ops.module[op];
    return module.valid() ? module.value : 0;
}

void ModuleMemory::resize(Block block, Bytes bytes)
{
    State& state = blocks_[block];
    own_[state.module] += state.resize(bytes);
}

void ModuleMemory::mark(Mark mark)
{
    if (mark == Mark::forwardEnd)
        turns_.push_back(own_);
}

ModuleTally ModuleMemory::finish() &&
{
    if (turns_.empty())
        turns_.push_back(own_);
    ModuleTally tally{std::move(turns_), std::move(recomputeMs_)};
    for (std::vector<Bytes>& held : tally.held) {
        held.pop_back();
        addToParents(trace_, held);
    }
    addToParents(trace_, tally.recomputeMs);
    return tally;
}

} // namespace headroom
