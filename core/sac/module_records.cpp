// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/sac/module_records.h"

#include "core/trace/memory_event.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

namespace headroom {
namespace {

constexpr double femtosecondsPerMs = 1e12;

/// Live bytes by category while a step is replayed, counted as by MemTracker: without the batch.
class LiveBytes : public TimelessMemory
{
public:
    explicit LiveBytes(const StepTrace& trace)
    {
        for (std::uint32_t i = 0; i < trace.storages.size(); ++i)
            blocks_.push_back({{trace.storages.bytes[StorageId(i)]}, trace.storages.category[StorageId(i)]});
    }

    Bytes operator[](Category category) const { return live_[static_cast<std::size_t>(category)]; }
    Bytes total() const noexcept { return total_; }
    Bytes bytesOf(StorageId storage) const { return blocks_[storage.value].bytes; }

    void hold(std::uint32_t storage)
    {
        if (blocks_[storage].hold())
            add(blocks_[storage].category, blocks_[storage].bytes);
    }
    void drop(std::uint32_t storage)
    {
        if (blocks_[storage].drop())
            add(blocks_[storage].category, -blocks_[storage].bytes);
    }
    void retype(StorageId storage, Category category)
    {
        Block& block = blocks_[storage.value];
        add(block.category, -block.live());
        block.category = category;
        add(block.category, block.live());
    }
    void resize(std::uint32_t storage, Bytes bytes) { add(blocks_[storage].category, blocks_[storage].resize(bytes)); }

    /// The bytes that MemTracker counts for a list of tensors: the whole storage of each, duplicates included, without
    /// the batch.
    Bytes sum(std::span<const StorageId> tensors) const
    {
        Bytes sum = 0;
        for (const StorageId storage : tensors) {
            if (storage.valid() && blocks_[storage.value].category != Category::input)
                sum += bytesOf(storage);
        }
        return sum;
    }

private:
    struct Block : HeldBlock
    {
        Category category = Category::other;
    };

    void add(Category category, Bytes bytes)
    {
        if (category == Category::input)
            return;
        live_[static_cast<std::size_t>(category)] += bytes;
        total_ += bytes;
    }

    std::vector<Block> blocks_;
    std::array<Bytes, categoryCount> live_{};
    Bytes total_ = 0;
};

/// Finds the first highest sample since any instant. Samples below a later sample are dropped, so that a binary search
/// works.
class RunningPeak
{
public:
    struct Sample
    {
        std::uint32_t instant = 0;
        Bytes total = 0;
        Bytes activation = 0;
        Bytes temporary = 0;
    };

    void add(const Sample& sample)
    {
        while (!falling_.empty() && falling_.back().total < sample.total)
            falling_.pop_back();
        falling_.push_back(sample);
    }
    /// Null when there is no sample since.
    const Sample* since(std::uint32_t instant) const
    {
        const auto found = std::ranges::lower_bound(falling_, instant, {}, &Sample::instant);
        return found == falling_.end() ? nullptr : &*found;
    }

private:
    std::vector<Sample> falling_;
};

class Recording
{
public:
    explicit Recording(const StepTrace& trace)
        : trace_(trace)
        , live_(trace)
        , state_(trace.modules.size())
    {
        records_.modules.resize(trace.modules.size());
        records_.opMemory.resize(trace.ops.size());
        records_.firstPack.assign(trace.storages.size(), ModuleRecords::never);
    }

    ModuleRecords run() &&
    {
        for (now_ = 0; now_ < trace_.events.size(); ++now_) {
            applyEvent(live_, *this, trace_, now_);
            afterEvent(trace_.events.kind[EventIndex(now_)], trace_.events.a[EventIndex(now_)]);
        }
        return std::move(records_);
    }

    // Functions that applyEvent() calls.

    void autograd(EventKind kind, PackId pack)
    {
        holdForAutograd(live_, trace_, kind, pack);
        const StorageId storage = trace_.packs.storage[pack];
        if (kind == EventKind::pack && storage.valid())
            records_.firstPack[storage.value] = std::min(records_.firstPack[storage.value], now_);
    }

    void opEnd(OpId op)
    {
        ++ops_;
        const auto time = static_cast<Femtoseconds>(std::round(trace_.ops.ms[op] * femtosecondsPerMs));
        Bytes memory = 0;
        const auto outputs = trace_.ops.outputs[op];
        for (std::size_t i = 0; i < outputs.size(); ++i) {
            const auto before = outputs.first(i);
            if (outputs[i].valid() && std::ranges::find(before, outputs[i]) == before.end())
                memory += live_.bytesOf(outputs[i]);
        }
        records_.opMemory[op.value] = memory;
        if (inBackward_) {
            backwardClock_ += time;
            peak_.add(sample());
        } else if (trace_.ops.phase[op] == Phase::forward) {
            forwardClock_ += time;
        }
    }

    void enter(CallId call)
    {
        const ModuleId module = trace_.calls.module[call];
        activate(module);
        if (inBackward_)
            return;
        ModuleRecord& record = records_.modules[module.value];
        record.call = {call, ops_, ops_, 0};
        record.inputBytes = live_.sum(trace_.calls.arguments[call]);
        record.preForwardActivation = live_[Category::activation];
        records_.fwPreOrder.push_back(module);
    }

private:
    /// A module as followed by ModTracker.
    struct Activity
    {
        std::uint32_t count = 0; ///< calls that run, forward and backward
        bool peakOpen = false; ///< a backward began since the module was last inactive
        RunningPeak::Sample begin; ///< sample at the begin of that backward
        Femtoseconds forwardBegin = 0;
        Femtoseconds backwardBegin = 0;
    };

    void afterEvent(EventKind kind, std::uint32_t a)
    {
        if (kind == EventKind::exit)
            exit(CallId(a));
        else if (kind == EventKind::backwardEnter)
            enterBackward(trace_.calls.module[CallId(a)]);
        else if (kind == EventKind::backwardExit)
            exitBackward(trace_.calls.module[CallId(a)]);
        else if (kind == EventKind::mark)
            mark(static_cast<Mark>(a));
    }

    void mark(Mark mark)
    {
        if (mark == Mark::forwardEnd)
            inBackward_ = true;
        if (mark != Mark::backwardEnd)
            return;
        inBackward_ = false;
        // ModTracker's callback at the end of backward: nothing is active any more.
        while (!active_.empty())
            deactivate(active_.back());
    }

    RunningPeak::Sample sample() const
    {
        return {now_, live_.total(), live_[Category::activation], live_[Category::temporary]};
    }

    void exit(CallId call)
    {
        const ModuleId module = trace_.calls.module[call];
        ModuleRecord& record = records_.modules[module.value];
        if (!inBackward_) {
            record.outputBytes = live_.sum(trace_.calls.results[call]);
            record.postForwardActivation = live_[Category::activation];
            records_.fwPostOrder.push_back(module);
        }
        if (record.call.id == call) {
            record.call.endOp = ops_;
            record.call.exitEvent = now_;
        }
        leave(module);
    }

    void enterBackward(ModuleId module)
    {
        activate(module);
        Activity& activity = state_[module.value];
        activity.peakOpen = true;
        activity.begin = sample();
        ModuleRecord& record = records_.modules[module.value];
        record.backward = true;
        record.preBackwardGradient = live_[Category::gradient];
        record.preBackwardTemporary = live_[Category::temporary];
        records_.bwPreOrder.push_back(module);
    }

    void exitBackward(ModuleId module)
    {
        records_.bwPostOrder.push_back(module);
        leave(module);
    }

    void activate(ModuleId module)
    {
        Activity& activity = state_[module.value];
        if (activity.count++ > 0)
            return;
        activity.forwardBegin = forwardClock_;
        activity.backwardBegin = backwardClock_;
        active_.push_back(module);
    }

    void leave(ModuleId module)
    {
        Activity& activity = state_[module.value];
        // A module without gradients of results is not active when the arguments' gradients are computed.
        if (activity.count > 0 && --activity.count == 0)
            deactivate(module);
    }

    void deactivate(ModuleId module)
    {
        Activity& activity = state_[module.value];
        ModuleRecord& record = records_.modules[module.value];
        activity.count = 0;
        record.forwardTime += forwardClock_ - activity.forwardBegin;
        record.backwardTime += backwardClock_ - activity.backwardBegin;
        // Mostly the module that became active last is the first to become inactive.
        active_.erase(std::next(std::find(active_.rbegin(), active_.rend(), module)).base());
        if (!activity.peakOpen)
            return;
        activity.peakOpen = false;
        const RunningPeak::Sample* highest = peak_.since(activity.begin.instant);
        const RunningPeak::Sample& peak = highest && highest->total > activity.begin.total ? *highest : activity.begin;
        record.peakActivation = peak.activation;
        record.peakTemporary = peak.temporary;
    }

    const StepTrace& trace_;
    LiveBytes live_;
    RunningPeak peak_;
    std::vector<Activity> state_; ///< by module
    std::vector<ModuleId> active_;
    std::uint32_t now_ = 0; ///< event
    std::uint32_t ops_ = 0; ///< number of ops that have ended
    bool inBackward_ = false;
    Femtoseconds forwardClock_ = 0;
    Femtoseconds backwardClock_ = 0;
    ModuleRecords records_;
};

} // namespace

ModuleRecords recordModules(const StepTrace& trace)
{
    return Recording(trace).run();
}

} // namespace headroom
