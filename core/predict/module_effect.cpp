// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/predict/module_effect.h"

#include <algorithm>
#include <utility>

namespace headroom {
namespace {

bool madeInForward(const StepTrace& trace, StorageId storage)
{
    if (!storage.valid())
        return false;
    const OpId creator = trace.storages.creator[storage];
    return creator.valid() && trace.ops.phase[creator] == Phase::forward;
}

/// Adds what each module has of its own to all modules that contain it. Parents come before their children.
void addToParents(const StepTrace& trace, std::vector<ModuleEffect>& effects)
{
    for (std::size_t i = effects.size(); i-- > 1;) {
        const ModuleId parent = trace.modules.parent[ModuleId(static_cast<std::uint32_t>(i))];
        if (!parent.valid())
            continue;
        effects[parent.value].recorded += effects[i].recorded;
        effects[parent.value].kept += effects[i].kept;
        effects[parent.value].recomputeMs += effects[i].recomputeMs;
    }
}

} // namespace

/// One pass over the forward with some calls checkpointed: which storages are held, which ops run again.
class ModuleEffects::Replay
{
public:
    Replay(const StepTrace& trace, const CheckpointPlan& plan)
        : trace_(trace)
        , regionOf_(trace.modules.size(), nullptr)
        , held_(trace.storages.size(), false)
        , again_(trace.ops.size(), false)
    {
        for (const CheckpointRegion& region : plan)
            regionOf_[region.module.value] = &region;
    }

    void run(const std::vector<ForwardEvent>& events)
    {
        for (const ForwardEvent& event : events) {
            switch (event.kind) {
            case EventKind::enter:
                enter(CallId(event.id));
                break;
            case EventKind::exit:
                exit(CallId(event.id));
                break;
            case EventKind::opEnd:
                if (region_)
                    ops_.push_back(OpId(event.id));
                break;
            default:
                pack(StorageId(event.id));
            }
        }
    }

    bool held(StorageId storage) const { return held_[storage.value]; }
    bool again(OpId op) const { return again_[op.value]; }
    const std::vector<StorageId>& cached() const noexcept { return cached_; }

private:
    void enter(CallId call)
    {
        const CheckpointRegion* region = regionOf_[trace_.calls.module[call].value];
        if (region_ || !region)
            return;
        region_ = region;
        call_ = call;
        ops_.clear();
        opsUntilLastPack_ = 0;
        for (const StorageId argument : trace_.calls.arguments[call])
            hold(argument);
    }

    void exit(CallId call)
    {
        if (!region_ || call != call_)
            return;
        std::size_t numbered = 0; // CheckpointRegion::save leaves ignored ops out
        for (std::size_t i = 0; i < ops_.size(); ++i) {
            const OpId op = ops_[i];
            const bool ignored = trace_.ops.flags[op] & opWithoutIndex;
            const bool saved = !ignored && numbered < region_->save.size() && region_->save[numbered];
            numbered += ignored ? 0 : 1;
            if (saved) {
                for (const StorageId output : trace_.ops.outputs[op])
                    hold(output);
            } else if (i < opsUntilLastPack_) {
                again_[op.value] = true;
            }
        }
        region_ = nullptr;
    }

    void pack(StorageId storage)
    {
        if (region_)
            opsUntilLastPack_ = ops_.size(); // a recomputation runs up to the last pack
        else
            hold(storage);
    }

    void hold(StorageId storage)
    {
        if (!madeInForward(trace_, storage) || held_[storage.value])
            return;
        held_[storage.value] = true;
        cached_.push_back(storage);
    }

    const StepTrace& trace_;
    std::vector<const CheckpointRegion*> regionOf_;
    std::vector<bool> held_;
    std::vector<bool> again_;
    std::vector<StorageId> cached_; ///< held ones, each once

    const CheckpointRegion* region_ = nullptr; ///< of the checkpointed call that runs now
    CallId call_;
    std::vector<OpId> ops_; ///< of that call so far
    std::size_t opsUntilLastPack_ = 0;
};

ModuleEffects::ModuleEffects(StepTracePtr trace)
    : trace_(std::move(trace))
{
    std::vector<bool> seen(trace_->storages.size(), false);
    const auto& events = trace_->events;
    for (std::uint32_t i = 0; i < events.size(); ++i) {
        const EventKind kind = events.kind[EventIndex(i)];
        const std::uint32_t a = events.a[EventIndex(i)];
        if (kind == EventKind::mark && static_cast<Mark>(a) == Mark::forwardEnd)
            break;
        if (kind == EventKind::enter || kind == EventKind::exit || kind == EventKind::opEnd) {
            forward_.push_back({kind, a});
        } else if (kind == EventKind::pack) {
            const StorageId storage = trace_->packs.storage[PackId(a)];
            forward_.push_back({kind, storage.value});
            if (madeInForward(*trace_, storage) && !seen[storage.value]) {
                seen[storage.value] = true;
                packed_.push_back(storage);
            }
        }
    }
}

std::vector<ModuleEffect> ModuleEffects::of(const CheckpointPlan& plan) const
{
    Replay replay(*trace_, plan);
    replay.run(forward_);

    std::vector<ModuleEffect> effects(trace_->modules.size());
    const auto effectOf = [&](OpId op) -> ModuleEffect* {
        const ModuleId module = trace_->ops.module[op];
        return module.valid() ? &effects[module.value] : nullptr;
    };
    const auto bytesOf = [&](StorageId storage) { return trace_->storages.bytes[storage]; };
    for (const StorageId storage : packed_) {
        if (ModuleEffect* effect = effectOf(trace_->storages.creator[storage]))
            effect->recorded += bytesOf(storage);
    }
    for (const StorageId storage : replay.cached()) {
        if (ModuleEffect* effect = effectOf(trace_->storages.creator[storage]))
            effect->kept += bytesOf(storage);
    }
    for (std::uint32_t i = 0; i < trace_->ops.size(); ++i) {
        ModuleEffect* effect = replay.again(OpId(i)) ? effectOf(OpId(i)) : nullptr;
        if (effect)
            effect->recomputeMs += trace_->ops.ms[OpId(i)];
    }
    addToParents(*trace_, effects);
    return effects;
}

std::vector<ModuleEffect> ModuleEffects::of(const std::vector<bool>& held, std::span<const OpId> again) const
{
    std::vector<ModuleEffect> effects(trace_->modules.size());
    const auto effectOf = [&](OpId op) -> ModuleEffect* {
        const ModuleId module = op.valid() ? trace_->ops.module[op] : ModuleId();
        return module.valid() ? &effects[module.value] : nullptr;
    };
    for (const StorageId storage : packed_) {
        if (ModuleEffect* effect = effectOf(trace_->storages.creator[storage]))
            effect->recorded += trace_->storages.bytes[storage];
    }
    for (std::uint32_t i = 0; i < held.size(); ++i) {
        if (ModuleEffect* effect = held[i] ? effectOf(trace_->storages.creator[StorageId(i)]) : nullptr)
            effect->kept += trace_->storages.bytes[StorageId(i)];
    }
    for (const OpId op : again) {
        if (ModuleEffect* effect = effectOf(op))
            effect->recomputeMs += trace_->ops.ms[op];
    }
    addToParents(*trace_, effects);
    return effects;
}

} // namespace headroom
