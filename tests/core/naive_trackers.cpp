// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/core/naive_trackers.h"

#include <algorithm>
#include <set>
#include <vector>

namespace headroom {
namespace {

using Name = std::string;
using Snapshot = std::map<Category, Bytes>;

Bytes total(const Snapshot& snapshot)
{
    Bytes sum = 0;
    for (const auto& [category, bytes] : snapshot)
        sum += bytes;
    return sum;
}

struct OpData
{
    OpId op;
    Bytes memory = 0;
    std::set<std::uint32_t> outputs;
};

struct ModuleData
{
    Bytes input = 0;
    Bytes output = 0;
    Snapshot preForward, postForward, preBackward, peakBackward;
    bool backward = false;
    Bytes localPeak = 0;
    double fw = 0;
    double bw = 0;
    std::size_t startIndex = 0; ///< in all ops
    std::vector<std::size_t> ops; ///< in all ops
    std::set<std::uint32_t> saved;
    bool noTensorInputs = false;
};

bool endsWithUnderscore(const Name& packet)
{
    return packet.back() == '_';
}

class Trackers
{
public:
    explicit Trackers(const StepTrace& trace)
        : trace_(trace)
    {
    }

    NaiveStatistics run()
    {
        for (std::uint32_t i = 0; i < trace_.events.size(); ++i)
            apply(trace_.events.kind[EventIndex(i)], trace_.events.a[EventIndex(i)], trace_.events.b[EventIndex(i)]);
        NaiveStatistics result;
        for (std::uint32_t i = 0; i < trace_.modules.size(); ++i)
            addModule(ModuleId(i), result);
        result.info.fwPreOrder = fwPre_;
        result.info.fwPostOrder = fwPost_;
        result.info.bwPreOrder = bwPre_;
        result.info.bwPostOrder = bwPost_;
        return result;
    }

private:
    Name name(CallId call) const { return Name(trace_.moduleFqn(trace_.calls.module[call])); }

    /// Everything alive, from scratch.
    Snapshot snapshot() const
    {
        Snapshot result;
        for (const auto& [storage, count] : holders_) {
            if (count > 0 && category(storage) != Category::input)
                result[category(storage)] += bytes(storage);
        }
        return result;
    }
    Category category(std::uint32_t storage) const
    {
        const auto found = categories_.find(storage);
        return found == categories_.end() ? trace_.storages.category[StorageId(storage)] : found->second;
    }
    Bytes bytes(std::uint32_t storage) const
    {
        const auto found = sizes_.find(storage);
        return found == sizes_.end() ? trace_.storages.bytes[StorageId(storage)] : found->second;
    }
    Bytes sum(std::span<const StorageId> tensors) const
    {
        Bytes result = 0;
        for (const StorageId storage : tensors)
            result += category(storage.value) == Category::input ? 0 : bytes(storage.value);
        return result;
    }

    void apply(EventKind kind, std::uint32_t a, std::uint32_t b)
    {
        const auto packed = [&] { return trace_.packs.storage[PackId(a)]; };
        if (kind == EventKind::alloc)
            ++holders_[a];
        if (kind == EventKind::free)
            --holders_[a];
        if (kind == EventKind::pack || kind == EventKind::unpack)
            holders_[packed().value] += packed().valid() ? 1 : 0;
        if (kind == EventKind::pack && packed().valid())
            saved_.insert(packed().value);
        if (kind == EventKind::release || kind == EventKind::unpackEnd)
            holders_[packed().value] -= packed().valid() ? 1 : 0;
        if (kind == EventKind::retype)
            categories_[a] = static_cast<Category>(b);
        if (kind == EventKind::resize)
            sizes_[a] = trace_.resizes.bytes[b];
        if (kind == EventKind::mark) {
            backward_
                = static_cast<Mark>(a) == Mark::forwardEnd || (backward_ && static_cast<Mark>(a) != Mark::backwardEnd);
            if (static_cast<Mark>(a) == Mark::backwardEnd)
                parents_.clear();
        }
        if (kind == EventKind::opEnd)
            dispatch(OpId(a));
        if (kind == EventKind::enter)
            preForward(CallId(a));
        if (kind == EventKind::exit)
            postForward(CallId(a));
        if (kind == EventKind::backwardEnter)
            preBackward(CallId(a));
        if (kind == EventKind::backwardExit)
            postBackward(CallId(a));
    }

    void append(const Name& module)
    {
        if (parents_.insert(module).second)
            active_[module] = 0;
        ++active_[module];
    }
    void pop(const Name& module)
    {
        if (parents_.contains(module) && --active_[module] == 0)
            parents_.erase(module);
    }

    void dispatch(OpId op)
    {
        OpData data{op, 0, {}};
        for (const StorageId storage : trace_.ops.outputs[op])
            data.outputs.insert(storage.value);
        for (const std::uint32_t storage : data.outputs)
            data.memory += bytes(storage);
        ops_.push_back(data);
        const Snapshot now = snapshot();
        for (const Name& parent : parents_) {
            ModuleData& module = modules_[parent];
            (backward_ ? module.bw : module.fw) += trace_.ops.ms[op];
            module.ops.push_back(ops_.size() - 1);
            if (backward_ && module.backward && module.localPeak < total(now)) {
                module.localPeak = total(now);
                module.peakBackward = now;
            }
        }
    }

    void preForward(CallId call)
    {
        append(name(call));
        if (backward_)
            return;
        ModuleData& module = modules_[name(call)];
        module.input = sum(trace_.calls.arguments[call]);
        module.preForward = snapshot();
        module.startIndex = ops_.size();
        module.ops.clear();
        module.noTensorInputs = trace_.calls.arguments[call].empty();
        fwPre_.push_back(name(call));
    }
    void postForward(CallId call)
    {
        if (!backward_) {
            ModuleData& module = modules_[name(call)];
            module.output = sum(trace_.calls.results[call]);
            module.postForward = snapshot();
            module.saved = saved_;
            fwPost_.push_back(name(call));
            forwardOps_[name(call)] = module.ops;
        }
        pop(name(call));
    }
    void preBackward(CallId call)
    {
        append(name(call));
        ModuleData& module = modules_[name(call)];
        module.backward = true;
        module.preBackward = module.peakBackward = snapshot();
        module.localPeak = total(module.preBackward);
        bwPre_.push_back(name(call));
    }
    void postBackward(CallId call)
    {
        bwPost_.push_back(name(call));
        pop(name(call));
    }

    static Bytes at(const Snapshot& snapshot, Category category)
    {
        const auto found = snapshot.find(category);
        return found == snapshot.end() ? 0 : found->second;
    }

    Bytes parameters(ModuleId root) const
    {
        std::set<std::uint32_t> seen;
        Bytes sum = 0;
        for (std::size_t i = 0; i < trace_.registered.size(); ++i) {
            ModuleId owner = trace_.registered.module[i];
            while (owner.valid() && owner != root)
                owner = trace_.modules.parent[owner];
            if (owner == root && trace_.registered.category[i] == Category::parameter
                && seen.insert(trace_.registered.storage[i].value).second)
                sum += trace_.storages.bytes[trace_.registered.storage[i]];
        }
        return sum;
    }

    void addModule(ModuleId id, NaiveStatistics& result)
    {
        const Name fqn(trace_.moduleFqn(id));
        const auto found = modules_.find(fqn);
        if (found == modules_.end())
            return;
        const ModuleData& data = found->second;
        ModuleStats stats;
        stats.fqn = fqn;
        stats.paramBytes = stats.gradBytes = parameters(id);
        stats.gradTotal = at(data.preBackward, Category::gradient);
        stats.activationForward = std::max<Bytes>(
            0, at(data.postForward, Category::activation) - at(data.preForward, Category::activation) - data.output);
        stats.activationBackward = at(data.peakBackward, Category::activation);
        stats.activationGrad = at(data.peakBackward, Category::temporary) - at(data.preBackward, Category::temporary);
        stats.activationTotal = at(data.postForward, Category::activation);
        stats.inputBytes = data.input;
        stats.outputBytes = data.output;
        stats.forwardMs = data.fw;
        stats.backwardMs = data.bw;
        result.info.stats.push_back(stats);
        const auto& parents = trace_.modules.parent;
        if (std::ranges::find(parents, id) != parents.end())
            result.sac[fqn] = sacStats(fqn, data);
    }

    SacStats sacStats(const Name& fqn, const ModuleData& data)
    {
        static const std::set<Name> views{"t", "view", "detach", "transpose", "_unsafe_view", "expand", "slice"};
        SacStats stats;
        stats.forceStoreRandom = data.noTensorInputs;
        std::map<std::size_t, int> newIds;
        for (const std::size_t id : forwardOps_[fqn]) {
            const OpId op = ops_[id].op;
            const Name full(trace_.opName(op));
            if ((trace_.ops.flags[op] & opSacIgnored) || full == "aten.clone.default")
                continue;
            const int index = static_cast<int>(stats.funcNames.size());
            newIds[id] = index;
            const Name packet = full.substr(full.find('.') + 1, full.rfind('.') - full.find('.') - 1);
            stats.funcNames.push_back(packet);
            stats.runtimes.push_back(trace_.ops.ms[op]);
            stats.memory.push_back(views.contains(packet) ? 0 : ops_[id].memory);
            if (views.contains(packet))
                stats.viewLikeOps.push_back(index);
            if (trace_.ops.flags[op] & opRandom)
                stats.randOps.push_back(index);
            if (std::ranges::includes(data.saved, ops_[id].outputs))
                stats.savedAutogradOps.push_back(index);
            if (!endsWithUnderscore(packet))
                continue;
            std::size_t parent = data.startIndex;
            while (!std::ranges::includes(ops_[parent].outputs, ops_[id].outputs))
                ++parent;
            stats.inplaceOps.emplace_back(index, newIds.contains(parent) ? newIds[parent] : index);
        }
        int last = static_cast<int>(stats.memory.size()) - 1;
        while (last >= 0
               && (std::ranges::find(stats.viewLikeOps, last) != stats.viewLikeOps.end()
                   || endsWithUnderscore(stats.funcNames[static_cast<std::size_t>(last)])))
            --last;
        if (last >= 0)
            stats.memory[static_cast<std::size_t>(last)] = 0;
        return stats;
    }

    const StepTrace& trace_;
    std::map<std::uint32_t, int> holders_;
    std::map<std::uint32_t, Category> categories_;
    std::map<std::uint32_t, Bytes> sizes_;
    std::set<std::uint32_t> saved_;
    bool backward_ = false;
    std::set<Name> parents_;
    std::map<Name, int> active_;
    std::map<Name, ModuleData> modules_;
    std::vector<OpData> ops_;
    std::map<Name, std::vector<std::size_t>> forwardOps_;
    std::vector<Name> fwPre_, fwPost_, bwPre_, bwPost_;
};

} // namespace

NaiveStatistics naiveStatistics(const StepTrace& trace)
{
    return Trackers(trace).run();
}

} // namespace headroom
