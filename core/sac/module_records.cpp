// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/sac/module_records.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

namespace headroom {
namespace {

constexpr double femtosecondsPerMs = 1e12;

/// Live bytes by category while a step is replayed, as MemTracker counts them: without the batch. Prediction has its
/// own (LiveMemory), which makes a timeline of it.
class LiveBytes
{
public:
    explicit LiveBytes(const StepTrace& trace)
        : bytes_(trace.storages.bytes.begin(), trace.storages.bytes.end())
        , category_(trace.storages.category.begin(), trace.storages.category.end())
        , holders_(bytes_.size())
    {
    }

    Bytes operator[](Category category) const { return live_[static_cast<std::size_t>(category)]; }
    Bytes total() const noexcept { return total_; }
    Bytes bytesOf(StorageId storage) const { return bytes_[storage.value]; }

    void hold(StorageId storage)
    {
        if (storage.valid() && holders_[storage.value]++ == 0)
            add(storage, bytes_[storage.value]);
    }
    void drop(StorageId storage)
    {
        if (storage.valid() && --holders_[storage.value] == 0)
            add(storage, -bytes_[storage.value]);
    }
    void retype(StorageId storage, Category category)
    {
        const Bytes bytes = holders_[storage.value] > 0 ? bytes_[storage.value] : 0;
        add(storage, -bytes);
        category_[storage.value] = category;
        add(storage, bytes);
    }
    void resize(StorageId storage, Bytes bytes)
    {
        if (holders_[storage.value] > 0)
            add(storage, bytes - bytes_[storage.value]);
        bytes_[storage.value] = bytes;
    }

    /// What MemTracker counts of tensors: each as often as it is named, whole storages, only those that it tracks.
    Bytes sum(std::span<const StorageId> tensors) const
    {
        Bytes sum = 0;
        for (const StorageId storage : tensors) {
            if (storage.valid() && category_[storage.value] != Category::input)
                sum += bytes_[storage.value];
        }
        return sum;
    }

private:
    void add(StorageId storage, Bytes bytes)
    {
        const Category category = category_[storage.value];
        if (category == Category::input)
            return;
        live_[static_cast<std::size_t>(category)] += bytes;
        total_ += bytes;
    }

    std::vector<Bytes> bytes_;
    std::vector<Category> category_;
    std::vector<std::uint32_t> holders_;
    std::array<Bytes, categoryCount> live_{};
    Bytes total_ = 0;
};

/// The first highest sample since any instant. Samples that a later one exceeds are dropped, so a question is a binary
/// search.
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
            const EventIndex event(now_);
            apply(trace_.events.kind[event], trace_.events.a[event], trace_.events.b[event]);
        }
        return std::move(records_);
    }

private:
    /// A module as ModTracker follows it.
    struct Activity
    {
        std::uint32_t count = 0; ///< calls that run, forward and backward
        bool peakOpen = false; ///< a backward began since it was last inactive
        RunningPeak::Sample begin; ///< of that backward
        Femtoseconds forwardBegin = 0;
        Femtoseconds backwardBegin = 0;
    };

    void apply(EventKind kind, std::uint32_t a, std::uint32_t b)
    {
        switch (kind) {
        case EventKind::alloc:
            return live_.hold(StorageId(a));
        case EventKind::free:
            return live_.drop(StorageId(a));
        case EventKind::pack:
            return pack(trace_.packs.storage[PackId(a)]);
        case EventKind::unpack:
            return live_.hold(trace_.packs.storage[PackId(a)]);
        case EventKind::unpackEnd:
        case EventKind::release:
            return live_.drop(trace_.packs.storage[PackId(a)]);
        case EventKind::retype:
            return live_.retype(StorageId(a), static_cast<Category>(b));
        case EventKind::resize:
            return live_.resize(StorageId(a), trace_.resizes.bytes[b]);
        case EventKind::opBegin:
            return;
        case EventKind::opEnd:
            return endOp(OpId(a));
        case EventKind::enter:
            return enter(CallId(a));
        case EventKind::exit:
            return exit(CallId(a));
        case EventKind::backwardEnter:
            return enterBackward(trace_.calls.module[CallId(a)]);
        case EventKind::backwardExit:
            return exitBackward(trace_.calls.module[CallId(a)]);
        case EventKind::mark:
            return mark(static_cast<Mark>(a));
        }
    }

    void pack(StorageId storage)
    {
        live_.hold(storage);
        if (storage.valid())
            records_.firstPack[storage.value] = std::min(records_.firstPack[storage.value], now_);
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

    void endOp(OpId op)
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

    RunningPeak::Sample sample() const
    {
        return {now_, live_.total(), live_[Category::activation], live_[Category::temporary]};
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
        // A module whose results need no gradient is not active when those of its arguments are there.
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
        // The last that came is mostly the first that goes.
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
    std::uint32_t ops_ = 0; ///< ended so far
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
