// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/policy/causes.h"

#include "core/policy/cause_finders.h"
#include "core/timeline/live_tree.h"
#include "core/timeline/storage_owners.h"
#include "core/trace/earlier_steps.h"
#include "core/trace/out_of_memory.h"
#include "core/trace/remarks.h"
#include "core/trace/source_lines.h"

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <utility>

namespace headroom {

namespace {

/// Shares of the peak from which a finding is a cause.
constexpr double leastShareOfState = 0.3;
constexpr double leastShareOfGrowth = 0.02;
constexpr double leastShareOfGradients = 0.05;
constexpr double leastShareOfUnread = 0.1;
constexpr double leastShareOfGraphs = 0.3;
constexpr double leastShareOfKept = 0.2; ///< of the memory between two steps
constexpr double leastRiseBetweenSteps = 0.1; ///< above the step's peak

class Causes
{
public:
    Causes(const StepTrace& step, const Timeline& timeline, const std::optional<CardRun>& run)
        : step_(step)
        , timeline_(timeline)
        , run_(run)
        , lines_(step)
        , atPeak_(liveBlocks(step, timeline, timeline.peakChange == Timeline::npos ? 0 : timeline.peakChange + 1))
    {
    }

    std::vector<Cause> find()
    {
        if (step_.info.source.empty()) {
            growth();
            const std::size_t before = causes_.size();
            unusedForwards();
            unusedGradients();
            summedLosses();
            sortFrom(before);
            memoryReaders();
            betweenSteps();
        } else {
            std::optional<FoundCause> growth = growthOfSnapshot(step_, timeline_, lines_);
            if (growth && isLargePart(growth->bytes, leastShareOfGrowth))
                add(growth->kind, growth->bytes, std::move(growth->sentence), growth->line);
        }
        fragmentation();
        const std::size_t before = causes_.size();
        if (step_.info.source.empty()) {
            oldGradients();
            zeroedGradients();
            unreadMemory();
        }
        for (FoundCause& cause : causesByShape(step_, atPeak_, timeline_.peak))
            add(cause.kind, cause.bytes, std::move(cause.sentence), mainLine(cause.storages));
        sortFrom(before);
        optimizerState();
        return std::move(causes_);
    }

private:
    bool isLargePart(Bytes bytes, double share) const
    {
        return static_cast<double>(bytes) >= share * static_cast<double>(timeline_.peak);
    }

    /// Sorts the causes from an index on, most bytes first.
    void sortFrom(std::size_t index)
    {
        std::ranges::stable_sort(causes_.begin() + static_cast<std::ptrdiff_t>(index), causes_.end(), std::greater(),
                                 &Cause::bytes);
    }

    /// Adds a cause at a line of lines_, which may be `none`.
    void add(CauseKind kind, Bytes bytes, std::string sentence, std::uint32_t line, std::string remark = {})
    {
        causes_.push_back({kind, bytes, std::move(sentence), lines_.text(line),
                           line == SourceLines::none ? FrameId() : lines_[line].shown(), std::move(remark)});
    }

    /// Returns the line that allocated most bytes of the storages; SourceLines::none: not known.
    std::uint32_t mainLine(const std::vector<StorageId>& storages) const
    {
        std::map<std::uint32_t, Bytes> bytes;
        for (const StorageId storage : storages)
            bytes[lines_.lineOf(storage)] += step_.storages.bytes[storage];
        bytes.erase(SourceLines::none);
        if (bytes.empty())
            return SourceLines::none;
        return std::ranges::max_element(bytes, {}, [](const auto& entry) { return entry.second; })->first;
    }

    void growth()
    {
        const std::string remark = growthRemark(step_);
        if (remark.empty())
            return;
        KeptActivations kept = keptActivations(step_);
        if (!isGrowth(kept))
            kept = keptBetweenSteps(step_);
        add(CauseKind::growth, kept.earlier + kept.more, remark, mainLine(kept.storages), remark);
    }

    void unusedForwards()
    {
        for (const UnusedForward& unused : headroom::unusedForwards(step_)) {
            const std::string remark = unusedForwardRemark(unused);
            add(CauseKind::unusedForward, unused.bytes, remark, mainLine(unused.storages), remark);
        }
    }

    void summedLosses()
    {
        const SummedLosses found = headroom::summedLosses(step_);
        std::set<StorageId> saved(found.storages.begin(), found.storages.end());
        Bytes bytes = 0;
        for (const LiveBlock& block : atPeak_)
            bytes += saved.contains(block.storage) ? block.bytes : 0;
        if (found.losses < 3 || !isLargePart(bytes - found.largest, leastShareOfGraphs))
            return;
        add(CauseKind::summedLosses, bytes,
            "the graphs of " + std::to_string(found.losses) + " losses live together: " + formatBytes(bytes) + " of "
                + formatBytes(timeline_.peak)
                + ", until a single backward(). Call backward() for each loss, before the next forward: the gradients "
                  "add up to the same",
            mainLine(found.storages));
    }

    void unusedGradients()
    {
        std::vector<StorageId> storages = headroom::unusedGradients(step_);
        if (storages.empty())
            return;
        Bytes bytes = 0;
        for (const StorageId storage : storages)
            bytes += step_.storages.bytes[storage];
        const std::vector<StorageId> saved = savedForUnused(step_, storages);
        Bytes savedBytes = 0;
        for (const LiveBlock& block : atPeak_)
            if (std::ranges::binary_search(saved, block.storage)) {
                savedBytes += block.bytes;
                storages.push_back(block.storage);
            }
        const Bytes all = bytes + savedBytes;
        if (all < MiB || !isLargePart(all, leastShareOfGrowth))
            return;
        add(CauseKind::unusedGradients, all,
            "backward makes " + formatBytes(bytes)
                + " of gradients that no optimizer reads, as of a teacher or of a frozen model"
                + (savedBytes > 0 ? ", from " + formatBytes(savedBytes) + " that the forward saves for nothing else"
                                  : std::string())
                + ": call requires_grad_(False) on the parameters, or run the forward under torch.no_grad()",
            mainLine(storages));
    }

    void memoryReaders()
    {
        constexpr std::string_view beginning = "the model reads the card's memory while it computes";
        for (const std::string& remark : step_.info.remarks)
            if (remark.starts_with(beginning))
                add(CauseKind::memoryReader, 0, remark, SourceLines::none, remark);
    }

    /// Returns the gradients of the step before that are alive at the peak, with their bytes.
    std::map<StorageId, Bytes> gradientsOfStepBefore() const
    {
        std::map<StorageId, Bytes> found;
        for (const LiveBlock& block : atPeak_)
            if (block.category == Category::gradient && !block.creator.valid())
                found.emplace(block.storage, block.bytes);
        return found;
    }

    /// Gradients of the step before that are alive at the peak, and that zero_grad() frees afterwards, unread.
    void oldGradients()
    {
        std::map<StorageId, Bytes> old = gradientsOfStepBefore();
        std::vector<StorageId> freed;
        Bytes bytes = 0;
        std::vector<StorageId> since; // freed since the last op
        for (std::uint32_t event = 0; event < step_.events.size(); ++event) {
            const EventIndex at(event);
            const std::uint32_t a = step_.events.a[at];
            if (step_.events.kind[at] == EventKind::free && old.erase(StorageId(a)) > 0) {
                since.emplace_back(a);
            } else if (step_.events.kind[at] == EventKind::opBegin) {
                since.clear();
                for (const StorageId input : step_.ops.inputs[OpId(a)])
                    old.erase(input); // backward adds to the gradient
            } else if (step_.events.kind[at] == EventKind::mark && static_cast<Mark>(a) == Mark::zeroGradEnd) {
                for (const StorageId storage : std::exchange(since, {})) {
                    freed.push_back(storage);
                    bytes += step_.storages.bytes[storage];
                }
            }
        }
        if (!isLargePart(bytes, leastShareOfGradients))
            return;
        add(CauseKind::oldGradients, bytes,
            "gradients of the step before take " + formatBytes(bytes) + " of the peak, until zero_grad() frees the "
                + "gradients unread: call optimizer.zero_grad() right after optimizer.step(), or before the forward",
            mainLine(freed));
    }

    /// Gradients of the step before that zero_grad(set_to_none=False) fills with zeros, and that are alive at the peak
    /// before backward adds to them. Without the gradients, another instant may be the peak.
    void zeroedGradients()
    {
        const std::map<StorageId, Bytes> old = gradientsOfStepBefore();
        std::set<StorageId> zeroed;
        std::map<StorageId, OpId> firstUse;
        for (std::uint32_t row = 0; row < step_.ops.size() && !old.empty(); ++row) {
            const std::string_view name = step_.opName(OpId(row));
            const bool isZero = name.starts_with("aten._foreach_zero_.") || name.starts_with("aten.zero_.");
            for (const StorageId input : step_.ops.inputs[OpId(row)])
                if (old.contains(input) && isZero)
                    zeroed.insert(input);
                else if (old.contains(input))
                    firstUse.emplace(input, OpId(row));
        }
        std::map<OpId, Bytes> needed; // from an op on
        std::vector<StorageId> storages;
        Bytes unneeded = 0; // at the present instant
        for (const StorageId storage : zeroed)
            if (const auto use = firstUse.find(storage); use != firstUse.end()) {
                needed[use->second] += old.at(storage);
                unneeded += old.at(storage);
                storages.push_back(storage);
            }
        Bytes live = total(timeline_.start);
        Bytes peak = live - unneeded; // without the gradients
        for (const MemoryChange& change : timeline_.changes) {
            while (change.op.valid() && !needed.empty() && needed.begin()->first <= change.op) {
                unneeded -= needed.begin()->second;
                needed.erase(needed.begin());
            }
            live += change.delta;
            peak = std::max(peak, live - unneeded);
        }
        const Bytes bytes = timeline_.peak - peak;
        if (!storages.empty() && isLargePart(bytes, leastShareOfGradients))
            add(CauseKind::oldGradients, bytes,
                "gradients of zeros take " + formatBytes(bytes)
                    + " of the peak until backward adds to the gradients: call zero_grad() with set_to_none=True",
                mainLine(storages));
    }

    /// By storage: whether an op of the step reads the storage.
    std::vector<bool> readStorages() const
    {
        std::vector<bool> read(step_.storages.size(), false);
        for (std::uint32_t row = 0; row < step_.ops.size(); ++row)
            for (const StorageId input : step_.ops.inputs[OpId(row)])
                read[input.value] = true;
        return read;
    }

    /// Memory at the peak that the step finds and that none of the step's ops reads: results of the step before until
    /// the program replaces the results, and what lives throughout. A line that makes what the step reads, such as the
    /// next batch, does not count.
    void unreadMemory()
    {
        const std::vector<bool> read = readStorages();
        const StorageOwners owners(step_);
        std::set<StorageId> stay, named;
        for (const LiveBlock& block : liveBlocks(step_, timeline_, timeline_.changes.size()))
            stay.insert(block.storage);
        if (!causes_.empty() && causes_.front().kind == CauseKind::growth)
            for (const KeptActivations& kept : {keptActivations(step_), keptBetweenSteps(step_)})
                named.insert(kept.storages.begin(), kept.storages.end());
        std::set<std::uint32_t> linesOfData{SourceLines::none};
        std::set<std::uint32_t> linesOfResults; // of forwards, and of what autograd saves
        if (hasSourceLines(step_))
            linesOfResults.insert(SourceLines::none); // what only autograd holds when the step begins
        std::set<StorageId> packed(step_.packs.storage.begin(), step_.packs.storage.end());
        for (std::uint32_t row = 0; row < read.size(); ++row) {
            const StorageId storage(row);
            const OpId creator = step_.storages.creator[storage];
            if (isData(step_.storages.category[storage]) && (read[row] || creator.valid()))
                linesOfData.insert(lines_.lineOf(storage));
            if (creator.valid() && !step_.ops.inputs[creator].empty()
                && (step_.ops.call[creator].valid() || packed.contains(storage)))
                linesOfResults.insert(lines_.lineOf(storage));
        }
        std::pair<Bytes, std::vector<StorageId>> before, unread;
        for (const LiveBlock& block : atPeak_) {
            if (block.creator.valid() || read[block.storage.value] || named.contains(block.storage))
                continue;
            const bool stays = stay.contains(block.storage);
            const std::uint32_t line = lines_.lineOf(block.storage);
            if (!isData(block.category) || owners.registeredRow(block.storage) != StorageOwners::none
                || (stays ? linesOfData.contains(line) : !linesOfResults.contains(line)))
                continue;
            auto& [bytes, storages] = stays ? unread : before;
            bytes += block.bytes;
            storages.push_back(block.storage);
        }
        if (isLargePart(before.first, leastShareOfUnread))
            add(CauseKind::carried, before.first,
                "results of the step before take " + formatBytes(before.first)
                    + " of the peak, until the program replaces the results: an output, a loss, or the graph that "
                      "backward(retain_graph=True) leaves. Delete such results (del) at the end of the step",
                mainLine(before.second));
        if (isLargePart(unread.first, leastShareOfUnread))
            add(CauseKind::unread, unread.first,
                formatBytes(unread.first)
                    + " of the peak are blocks that no op of the step reads, as of a loaded checkpoint: delete the "
                      "last name that holds the blocks, or load to the CPU",
                mainLine(unread.second));
    }

    void betweenSteps()
    {
        constexpr std::size_t leastKept = 4; ///< blocks of equal size that look like outputs in a list
        const MemoryBetweenSteps most = mostBetweenSteps(step_);
        const Bytes level = total(timeline_.start) + most.peak;
        if (static_cast<double>(level - timeline_.peak) < leastRiseBetweenSteps * static_cast<double>(timeline_.peak))
            return;
        std::string sentence = "memory is highest between two steps, as in an evaluation: " + formatBytes(level)
            + ", and the step takes " + formatBytes(timeline_.peak);
        std::pair<Bytes, std::size_t> kept;
        for (const auto& block : most.blocks)
            if (block.second >= leastKept
                && block.first * static_cast<Bytes>(block.second) > kept.first * static_cast<Bytes>(kept.second))
                kept = block;
        if (const Bytes bytes = kept.first * static_cast<Bytes>(kept.second);
            static_cast<double>(bytes) >= leastShareOfKept * static_cast<double>(level))
            sentence += ". " + std::to_string(kept.second) + " blocks of " + formatBytes(kept.first)
                + " live there together: outputs that are kept, as in a list, take their bytes even without a graph. "
                  "Keep output.cpu(), or the figures that count";
        add(CauseKind::betweenSteps, level, sentence, SourceLines::none);
    }

    /// Returns the bytes that the allocator had reserved when a request failed; 0: not known. Of a simulated card the
    /// step has what was left, and the card the rest.
    Bytes reservedAt(const OutOfMemory& failure) const
    {
        if (failure.reserved > 0 || !step_.info.simulated)
            return failure.reserved;
        const Result<DeviceSpec> spec = findDeviceSpec(step_.info.gpu);
        if (!spec)
            return 0;
        const Result<Card> card = cardFor(*spec, step_, recordedAllocatorSettings(step_.info));
        if (!card || card->rules.memoryFraction > 0) // what was left is the device's, not the share's
            return 0;
        return card->forTensors() - failure.deviceFree;
    }

    /// Describes the pieces of the free memory, and the block that keeps the largest piece from a larger one.
    std::string piecesOf(const OutOfMemory& failure) const
    {
        const std::string sizes = piecesText(failure);
        if (sizes.empty())
            return "pieces that are too small or in other pools";
        const StorageId beside = failure.largest.front().beside;
        if (!beside.valid())
            return sizes;
        const std::string line = lines_.text(beside);
        return sizes + (failure.pieces > 1 ? ", the largest beside " : " beside ") + "a block of "
            + formatBytes(step_.storages.bytes[beside]) + (line.empty() ? "" : " from " + line);
    }

    void fragmentation()
    {
        const auto addBlock = [this](Bytes block, Bytes free, Bytes deviceFree, const std::string& pieces, OpId op) {
            const std::string left
                = free < block ? "the device has " + formatBytes(deviceFree) + " left and " : std::string();
            add(CauseKind::fragmentation, free,
                "fragmentation: a block of " + formatBytes(block) + " finds no room, while " + left
                    + "the allocator holds " + formatBytes(free) + " free, in " + pieces
                    + ". Try PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
                lines_.lineOf(op));
        };
        for (const OutOfMemory& failure : outOfMemoryEvents(step_)) {
            const Bytes reserved = reservedAt(failure);
            const Bytes free = reserved - failure.active;
            if (isFragmentation(failure.requested, free, failure.deviceFree, reserved))
                return addBlock(failure.requested, free, failure.deviceFree, piecesOf(failure), failure.op);
        }
        if (!run_ || run_->runs || !run_->failure || !run_->failure->memory.isFragmentation())
            return;
        const CachingAllocator::OutOfMemory& memory = run_->failure->memory;
        const Bytes largest = memory.freeBlocks.empty() ? 0 : memory.freeBlocks.front();
        addBlock(memory.size, memory.stats.reserved - memory.stats.active, memory.deviceFree,
                 "pieces " + (largest > 0 ? "of at most " + formatBytes(largest) : "of other pools or streams"),
                 run_->failure->op);
    }

    void optimizerState()
    {
        const auto at = [&](Category category) { return timeline_.atPeak[static_cast<std::size_t>(category)]; };
        const Bytes state = at(Category::optimizer);
        const Bytes weights = at(Category::parameter);
        if (state <= weights || weights == 0 || !isLargePart(state, leastShareOfState))
            return;
        std::vector<StorageId> storages;
        for (const LiveBlock& block : atPeak_)
            if (block.category == Category::optimizer)
                storages.push_back(block.storage);
        add(CauseKind::optimizerState, state,
            "the optimizer's state takes " + formatBytes(state) + " of " + formatBytes(timeline_.peak)
                + ", more than the weights (" + formatBytes(weights)
                + "): an optimizer with 8-bit or sharded state takes less",
            mainLine(storages));
    }

    const StepTrace& step_;
    const Timeline& timeline_;
    const std::optional<CardRun>& run_;
    const SourceLines lines_;
    const std::vector<LiveBlock> atPeak_;
    std::vector<Cause> causes_;
};

} // namespace

std::string_view causeName(CauseKind kind)
{
    static constexpr std::array<std::string_view, 14> names{
        "growth",        "unused_forward", "unused_gradients", "summed_losses",  "memory_reader",
        "old_gradients", "carried",        "unread",           "between_steps",  "fragmentation",
        "attention",     "logits",         "expansion",        "optimizer_state"};
    return names[static_cast<std::size_t>(kind)];
}

std::vector<Cause> causesOf(const StepTrace& step, const Timeline& timeline, const std::optional<CardRun>& run)
{
    return Causes(step, timeline, run).find();
}

} // namespace headroom
