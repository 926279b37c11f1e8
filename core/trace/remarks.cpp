// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/trace/remarks.h"

#include "core/base/bytes.h"
#include "core/trace/earlier_steps.h"
#include "core/trace/out_of_memory.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <string_view>
#include <utility>

namespace headroom {

namespace {

/// Finds calls of modules with saved tensors that no backward pass uses.
class UnusedForwards
{
public:
    explicit UnusedForwards(const StepTrace& step)
        : step_(step)
        , usesSaved_(step.calls.size(), false)
        , callOf_(step.packs.size())
        , isUsed_(step.packs.size(), false)
    {
        std::vector<std::uint32_t> running;
        bool isBackward = false;
        for (std::uint32_t at = 0; at < step.events.size(); ++at) {
            const std::uint32_t a = step.events.a[EventIndex(at)];
            switch (step.events.kind[EventIndex(at)]) {
            case EventKind::enter:
                running.push_back(a);
                break;
            case EventKind::exit:
                running.pop_back();
                break;
            case EventKind::pack:
                if (!isBackward && !running.empty())
                    callOf_[a] = CallId(running.back());
                break;
            case EventKind::unpack:
                isUsed_[a] = true;
                break;
            case EventKind::mark:
                hasBackward_ = hasBackward_ || static_cast<Mark>(a) == Mark::backwardEnd;
                isBackward = static_cast<Mark>(a) == Mark::forwardEnd;
                break;
            default:
                break;
            }
        }
        for (std::uint32_t pack = 0; pack < step.packs.size(); ++pack)
            for (CallId call = callOf_[pack]; call.valid() && isUsed_[pack]; call = step.calls.parent[call])
                usesSaved_[call.value] = true;
    }

    std::vector<UnusedForward> found() const
    {
        if (!hasBackward_ || !step_.info.endedEarly().empty())
            return {};
        const std::vector<bool> needed = storagesInUse();
        std::map<ModuleId, std::set<StorageId>> kept;
        std::map<ModuleId, std::set<CallId>> calls;
        for (std::uint32_t pack = 0; pack < step_.packs.size(); ++pack) {
            const StorageId storage = step_.packs.storage[PackId(pack)];
            const CallId call = outermostUnused(callOf_[pack]);
            if (!call.valid() || !storage.valid() || needed[storage.value])
                continue;
            kept[step_.calls.module[call]].insert(storage);
            calls[step_.calls.module[call]].insert(call);
        }
        std::vector<UnusedForward> found;
        for (const auto& [module, storages] : kept) {
            UnusedForward unused{
                std::string(step_.moduleFqn(module)), std::ssize(calls[module]), 0, {storages.begin(), storages.end()}};
            for (const StorageId storage : storages)
                unused.bytes += step_.storages.bytes[storage];
            if (unused.bytes >= leastGrowth)
                found.push_back(std::move(unused));
        }
        return found;
    }

private:
    /// The outermost of `call` and the calls around `call` without a saved tensor that a backward pass uses.
    CallId outermostUnused(CallId call) const
    {
        CallId found;
        for (; call.valid() && !usesSaved_[call.value]; call = step_.calls.parent[call])
            found = call;
        return found;
    }

    /// By storage: whether a backward pass uses the storage, or the step did not make the storage.
    std::vector<bool> storagesInUse() const
    {
        std::vector<bool> needed(step_.storages.size());
        for (std::uint32_t storage = 0; storage < needed.size(); ++storage)
            needed[storage] = !step_.storages.creator[StorageId(storage)].valid()
                || !isOfGraph(step_.storages.category[StorageId(storage)]);
        for (std::uint32_t pack = 0; pack < step_.packs.size(); ++pack)
            if (const StorageId storage = step_.packs.storage[PackId(pack)]; storage.valid() && isUsed_[pack])
                needed[storage.value] = true;
        return needed;
    }

    const StepTrace& step_;
    std::vector<bool> usesSaved_; ///< by call: whether a backward pass uses a tensor that was saved inside the call
    std::vector<CallId> callOf_; ///< by pack: the innermost call of the forward; invalid in backward
    std::vector<bool> isUsed_; ///< by pack
    bool hasBackward_ = false;
};

/// Follows gradients through a step.
class Gradients
{
public:
    explicit Gradients(const StepTrace& step)
        : step_(step)
        , gradients_(step.storages.size())
    {
        for (std::uint32_t event = 0; event < step.events.size(); ++event)
            apply(EventIndex(event));
    }

    std::vector<StorageId> unused() const
    {
        std::vector<StorageId> found;
        for (std::uint32_t row = 0; anyRead_ && row < gradients_.size(); ++row)
            if (gradients_[row].isMade && !gradients_[row].isRead && !gradients_[row].isDropped)
                found.emplace_back(row);
        return found;
    }

private:
    struct Gradient
    {
        std::size_t madeBefore = 0; ///< number of the optimizer's ops before the gradient
        bool isLeft = false; ///< by an earlier step
        bool isMade = false;
        bool isDropped = false; ///< before the optimizer runs, as by zero_grad() between two backward passes
        bool isRead = false;
    };

    void apply(EventIndex event)
    {
        const std::uint32_t a = step_.events.a[event];
        const EventKind kind = step_.events.kind[event];
        if (kind == EventKind::opBegin)
            run(OpId(a));
        else if (kind == EventKind::mark)
            hasBegun_ = hasBegun_ || static_cast<Mark>(a) == Mark::stepBegin;
        else if ((kind == EventKind::alloc && step_.storages.category[StorageId(a)] == Category::gradient)
                 || (kind == EventKind::retype && static_cast<Category>(step_.events.b[event]) == Category::gradient))
            gradients_[a] = {optimizerOps_, !hasBegun_, hasBegun_, false, gradients_[a].isRead};
        else if (kind == EventKind::free && gradients_[a].isMade)
            gradients_[a].isDropped = gradients_[a].madeBefore == optimizerOps_;
    }

    void run(OpId op)
    {
        const Phase phase = step_.ops.phase[op];
        optimizerOps_ += phase == Phase::optimizer;
        const auto outputs = step_.ops.outputs[op];
        for (const StorageId input : step_.ops.inputs[op]) {
            Gradient& gradient = gradients_[input.value];
            if (phase == Phase::optimizer) {
                gradient.isRead = true;
                anyRead_ = anyRead_ || gradient.isMade;
            } else if (phase == Phase::backward && gradient.isLeft) { // backward adds to the gradient
                gradient.isMade = true;
                gradient.madeBefore = optimizerOps_;
            } else if (computesWithGradients(op) && std::ranges::find(outputs, input) == outputs.end()) {
                gradient.isRead = true;
            }
        }
    }

    /// Whether an op outside of backward and of the optimizer makes another tensor of gradients. Clipping does not:
    /// norms, and changes in place of a list of gradients.
    bool computesWithGradients(OpId op) const
    {
        const unsigned flags = step_.ops.flags[op];
        const bool changesList = (flags & opInPlace) != 0 && step_.ops.outputs[op].empty();
        return step_.ops.phase[op] == Phase::forward && (flags & opView) == 0 && !changesList
            && step_.opName(op).find("norm") == std::string_view::npos;
    }

    const StepTrace& step_;
    std::vector<Gradient> gradients_; ///< by storage
    std::size_t optimizerOps_ = 0;
    bool hasBegun_ = false;
    bool anyRead_ = false;
};

/// Parts of the forward that share no activation: sets of storages, joined by ops. Adding up single numbers joins
/// nothing.
class ForwardParts
{
public:
    explicit ForwardParts(const StepTrace& step)
        : step_(step)
        , parents_(step.storages.size())
    {
        std::iota(parents_.begin(), parents_.end(), 0U);
        for (std::uint32_t row = 0; row < step.ops.size(); ++row)
            if (step.ops.phase[OpId(row)] == Phase::forward)
                join(OpId(row));
    }

    std::uint32_t of(StorageId storage)
    {
        std::uint32_t part = storage.value;
        while (parents_[part] != part)
            part = parents_[part] = parents_[parents_[part]];
        return part;
    }

    /// Whether an op of the forward makes the storage from more than weights: a cast of weights is shared by all parts.
    bool isMade(StorageId storage) const
    {
        const OpId creator = step_.storages.creator[storage];
        return creator.valid() && step_.ops.phase[creator] == Phase::forward
            && (step_.ops.flags[creator] & opAutocastCast) == 0;
    }

private:
    void join(OpId op)
    {
        constexpr Bytes number = 8;
        static constexpr std::array<std::string_view, 5> sums{"aten.add.", "aten.add_.", "aten.sub.", "aten.stack.",
                                                              "aten.cat."};
        const auto isNumber = [this](StorageId storage) { return step_.storages.requested[storage] <= number; };
        const std::string_view name = step_.opName(op);
        if (std::ranges::all_of(step_.ops.inputs[op], isNumber)
            && std::ranges::any_of(sums, [&](std::string_view sum) { return name.starts_with(sum); }))
            return;
        StorageId first;
        for (const auto& storages : {step_.ops.inputs[op], step_.ops.outputs[op]})
            for (const StorageId storage : storages)
                if (isMade(storage)) {
                    first = first.valid() ? first : storage;
                    parents_[of(storage)] = of(first);
                }
    }

    const StepTrace& step_;
    std::vector<std::uint32_t> parents_; ///< by storage: another storage of the part, or itself
};

} // namespace

std::vector<UnusedForward> unusedForwards(const StepTrace& step)
{
    std::vector<UnusedForward> found = UnusedForwards(step).found();
    if (found.empty() || growthRemark(step).empty())
        return found;
    // What the program keeps is growth; the same bytes have one cause.
    const std::vector<StorageId> kept = keptActivations(step).storages;
    for (UnusedForward& unused : found)
        std::erase_if(unused.storages, [&](StorageId storage) {
            const bool isKept = std::ranges::binary_search(kept, storage);
            unused.bytes -= isKept ? step.storages.bytes[storage] : 0;
            return isKept;
        });
    std::erase_if(found, [](const UnusedForward& unused) { return unused.bytes < leastGrowth; });
    return found;
}

std::vector<StorageId> unusedGradients(const StepTrace& step)
{
    return Gradients(step).unused();
}

std::vector<StorageId> savedForUnused(const StepTrace& step, const std::vector<StorageId>& unused)
{
    const auto isBackward = [&](OpId op) { return op.valid() && step.ops.phase[op] == Phase::backward; };
    std::vector<bool> isNeeded(step.storages.size(), true); // results of backward: what is kept, or is read by others
    for (std::uint32_t event = 0; event < step.events.size(); ++event)
        if (const std::uint32_t a = step.events.a[EventIndex(event)];
            step.events.kind[EventIndex(event)] == EventKind::free && isBackward(step.storages.creator[StorageId(a)]))
            isNeeded[a] = false;
    for (const StorageId storage : unused)
        isNeeded[storage.value] = false;
    std::vector<bool> isRead(step.storages.size(), false);
    for (auto row = static_cast<std::uint32_t>(step.ops.size()); row-- > 0;) {
        const OpId op(row);
        const unsigned flags = step.ops.flags[op];
        const auto needs = [&](StorageId storage) { return isNeeded[storage.value]; };
        const bool isOfBackward = isBackward(op) && (flags & opRecomputed) == 0;
        if ((flags & opView) != 0
            || (isOfBackward && std::ranges::none_of(step.ops.outputs[op], needs)
                && std::ranges::none_of(step.ops.mutated[op], needs)))
            continue;
        for (const StorageId input : step.ops.inputs[op]) {
            isNeeded[input.value] = true;
            isRead[input.value] = isRead[input.value] || isOfBackward || (flags & opRecomputed) != 0;
        }
    }
    std::set<StorageId> saved;
    for (std::uint32_t event = 0; event < step.events.size(); ++event) {
        if (step.events.kind[EventIndex(event)] != EventKind::unpack)
            continue;
        const StorageId storage = step.packs.storage[PackId(step.events.a[EventIndex(event)])];
        if (storage.valid() && !isRead[storage.value] && step.storages.creator[storage].valid()
            && isOfGraph(step.storages.category[storage]))
            saved.insert(storage);
    }
    return {saved.begin(), saved.end()};
}

SummedLosses summedLosses(const StepTrace& step)
{
    ForwardParts parts(step);
    std::map<std::uint32_t, std::map<std::uint32_t, std::set<StorageId>>> used; // by backward pass and part
    for (std::uint32_t row = 0; row < step.events.size(); ++row) {
        const EventIndex event(row);
        if (step.events.kind[event] != EventKind::unpack)
            continue;
        const StorageId storage = step.packs.storage[PackId(step.events.a[event])];
        if (storage.valid() && parts.isMade(storage))
            used[step.events.b[event]][parts.of(storage)].insert(storage);
    }
    SummedLosses most;
    for (const auto& [pass, graphs] : used) {
        SummedLosses found;
        for (const auto& [part, storages] : graphs) {
            Bytes bytes = 0;
            for (const StorageId storage : storages)
                bytes += step.storages.bytes[storage];
            found.largest = std::max(found.largest, bytes);
            found.losses += bytes >= leastGrowth ? 1 : 0;
            found.storages.insert(found.storages.end(), storages.begin(), storages.end());
        }
        if (found.losses > most.losses)
            most = std::move(found);
    }
    return most;
}

Bytes keptByGraphs(const StepTrace& step)
{
    struct Holders
    {
        bool program = false;
        int autograd = 0;
    };
    std::vector<Holders> holders(step.storages.size());
    std::vector<Category> categories(step.storages.category.begin(), step.storages.category.end());
    const auto save = [&](std::uint32_t pack, int change) {
        if (const StorageId storage = step.packs.storage[PackId(pack)]; storage.valid())
            holders[storage.value].autograd += change;
    };
    for (std::uint32_t event = 0; event < step.events.size(); ++event) {
        const std::uint32_t a = step.events.a[EventIndex(event)];
        switch (step.events.kind[EventIndex(event)]) {
        case EventKind::alloc:
            holders[a].program = true;
            break;
        case EventKind::free:
            holders[a].program = false;
            break;
        case EventKind::pack:
            save(a, 1);
            break;
        case EventKind::release:
            save(a, -1);
            break;
        case EventKind::retype:
            categories[a] = static_cast<Category>(step.events.b[EventIndex(event)]);
            break;
        default:
            break;
        }
    }
    Bytes bytes = 0;
    for (std::size_t storage = 0; storage < holders.size(); ++storage)
        if (categories[storage] == Category::activation && !holders[storage].program && holders[storage].autograd > 0)
            bytes += step.storages.bytes[StorageId(static_cast<std::uint32_t>(storage))];
    return bytes;
}

std::string noteOnCarriedGraph(const StepTrace& step)
{
    const Bytes kept = keptByGraphs(step);
    const Bytes found = keptActivations(step).found;
    if (kept < leastGrowth || found < leastGrowth || !growthRemark(step).empty())
        return {};
    const bool retained = retainsGraph(step);
    return "the step begins with " + formatBytes(found) + " of activations that the step before left alive in a graph "
        + (retained ? "that backward(retain_graph=True) keeps"
                    : "without a backward (as of a teacher's output, until the program replaces the output)")
        + ". Plans count these activations as recorded, though checkpoints reduce the number: the executed peak may be "
          "lower than planned, and a lower budget possible. "
        + (retained ? "Leave retain_graph out, or delete the loss and the output"
                    : "Run that forward under torch.no_grad(), or delete the output")
        + " before the next forward (del), and record the step again";
}

std::vector<FallbackOp> fallbackOps(const StepTrace& step)
{
    std::map<std::pair<std::string_view, std::string_view>, std::int64_t> counts;
    for (std::uint32_t row = 0; row < step.ops.size(); ++row)
        if (const OpId op(row); (step.ops.flags[op] & opFallback) != 0)
            ++counts[{step.opName(op), step.moduleFqn(step.ops.module[op])}];
    std::vector<FallbackOp> fallbacks;
    for (const auto& [where, count] : counts)
        fallbacks.push_back({std::string(where.first), std::string(where.second), count});
    return fallbacks;
}

std::string unusedForwardRemark(const UnusedForward& unused)
{
    return unused.module + " ran " + (unused.calls > 1 ? std::to_string(unused.calls) + " times " : "")
        + "with gradients on, and no backward pass used the " + formatBytes(unused.bytes)
        + " that autograd kept for the module: call the module inside of torch.no_grad()";
}

std::string growthRemark(const StepTrace& step)
{
    const KeptActivations kept = keptActivations(step);
    if (const KeptActivations between = keptBetweenSteps(step); !isGrowth(kept) && isGrowth(between))
        return "the program keeps " + formatBytes(between.earlier)
            + " of earlier steps that this step does not read, and " + formatBytes(between.more)
            + " more from one step to the next: memory grows between steps, as by predictions "
              "of evaluations in a list. Keep output.cpu(), or the figures that count";
    if (!isGrowth(kept))
        return {};
    const bool areGradients = kept.gradients > kept.earlier / 2;
    return "the program keeps " + formatBytes(kept.earlier) + " of " + (areGradients ? "gradients" : "activations")
        + " of earlier steps, and this step adds " + formatBytes(kept.more)
        + ": every step takes more than the step before, and the peak is of this step only. "
        + (kept.inGraph
               ? "A kept loss or output holds the autograd graph, and so does a gradient made with create_graph: keep "
                 "loss.item() or output.detach(), and clear such gradients by zero_grad(set_to_none=True)"
               : areGradients ? "Gradients in a list live on after zero_grad(): keep norms, or gradient.cpu()"
                              : "Kept outputs, as in a list or by torch.cat(), take memory even without a graph: keep "
                                "output.cpu(), or the figures that count");
}

std::vector<std::string> remarks(const StepTrace& step)
{
    std::vector<std::string> sentences = step.info.remarks;
    for (const FallbackOp& fallback : fallbackOps(step))
        sentences.push_back(fallback.op + " in " + (fallback.module.empty() ? "no module" : fallback.module)
                            + " has no kernel on the simulated GPU and ran " + std::to_string(fallback.count)
                            + " times on zeros to learn shapes");
    if (!step.info.source.empty())
        return sentences;
    for (const UnusedForward& unused : unusedForwards(step))
        sentences.push_back(unusedForwardRemark(unused));
    if (std::string growth = growthRemark(step); !growth.empty())
        sentences.push_back(std::move(growth));
    if (const std::string failure = failureRemark(step); !failure.empty())
        sentences.push_back(failure);
    if (const auto leftOut = leftOutModules(step))
        sentences.push_back(leftOutText(*leftOut)
                            + ", as layers that are dropped at random: a step that runs all modules takes more memory. "
                              "Turn the dropping off for the recording, as by layerdrop=0");
    return sentences;
}

std::vector<std::string> planRemarks(const StepTrace& step)
{
    std::vector<std::string> sentences = remarks(step);
    if (std::string note = noteOnCarriedGraph(step); !note.empty())
        sentences.push_back(std::move(note));
    return sentences;
}

} // namespace headroom
