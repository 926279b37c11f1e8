// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/policy/causes.h"

#include "core/cost/op_signature.h"
#include "core/timeline/live_tree.h"
#include "core/trace/out_of_memory.h"
#include "core/trace/remarks.h"
#include "core/trace/source_lines.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <set>
#include <utility>

namespace headroom {

namespace {

constexpr std::int64_t leastVocabulary = 1024; ///< fewer classes make no large logits

/// Shares of the peak from which a finding is a cause.
constexpr double leastShareOfLogits = 0.2;
constexpr double leastShareOfState = 0.3;
constexpr double leastShareOfGrowth = 0.02;

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
            unusedForwards();
            unusedGradients();
            memoryReaders();
        } else {
            growthOfSnapshot();
        }
        fragmentation();
        logits();
        optimizerState();
        return std::move(causes_);
    }

private:
    bool isLargePart(Bytes bytes, double share) const
    {
        return static_cast<double>(bytes) >= share * static_cast<double>(timeline_.peak);
    }

    /// Returns the line that allocated most bytes of the storages.
    std::string mainLine(const std::vector<StorageId>& storages) const
    {
        std::map<std::uint32_t, Bytes> bytes;
        for (const StorageId storage : storages)
            bytes[lines_.lineOf(storage)] += step_.storages.bytes[storage];
        bytes.erase(SourceLines::none);
        if (bytes.empty())
            return {};
        return lines_.text(std::ranges::max_element(bytes, {}, [](const auto& entry) { return entry.second; })->first);
    }

    void growth()
    {
        const std::string remark = growthRemark(step_);
        if (remark.empty())
            return;
        const KeptActivations kept = keptActivations(step_);
        causes_.push_back({CauseKind::growth, kept.earlier + kept.more, remark, mainLine(kept.storages), remark});
    }

    void unusedForwards()
    {
        for (const UnusedForward& unused : headroom::unusedForwards(step_)) {
            const std::string remark = unusedForwardRemark(unused);
            causes_.push_back({CauseKind::unusedForward, unused.bytes, remark, mainLine(unused.storages), remark});
        }
    }

    /// Gradients that no op of the optimizer reads, in a step in which the optimizer reads others.
    void unusedGradients()
    {
        std::vector<bool> isGradient(step_.storages.size(), false);
        std::vector<bool> isRead(step_.storages.size(), false);
        for (std::uint32_t event = 0; event < step_.events.size(); ++event)
            if (const EventIndex at(event); step_.events.kind[at] == EventKind::retype
                && static_cast<Category>(step_.events.b[at]) == Category::gradient)
                isGradient[step_.events.a[at]] = true;
        bool anyRead = false;
        for (std::uint32_t row = 0; row < step_.ops.size(); ++row) {
            const OpId op(row);
            if (step_.ops.phase[op] != Phase::optimizer)
                continue;
            for (const StorageId input : step_.ops.inputs[op]) {
                isRead[input.value] = true;
                anyRead = anyRead || isGradient[input.value];
            }
        }
        std::vector<StorageId> unused;
        Bytes bytes = 0;
        for (std::uint32_t row = 0; row < step_.storages.size(); ++row)
            if (isGradient[row] && !isRead[row]) {
                unused.emplace_back(row);
                bytes += step_.storages.bytes[StorageId(row)];
            }
        if (!anyRead || bytes < MiB || !isLargePart(bytes, leastShareOfGrowth))
            return;
        causes_.push_back(
            {CauseKind::unusedGradients,
             bytes,
             "backward makes " + formatBytes(bytes)
                 + " of gradients that no optimizer reads, as of a teacher or of a frozen model: call "
                   "requires_grad_(False) on these parameters, or run their forward under torch.no_grad()",
             mainLine(unused),
             {}});
    }

    void memoryReaders()
    {
        constexpr std::string_view beginning = "the model reads the card's memory while it computes";
        for (const std::string& remark : step_.info.remarks)
            if (remark.starts_with(beginning))
                causes_.push_back({CauseKind::memoryReader, 0, remark, {}, remark});
    }

    /// A snapshot has no steps: a line grows that allocates blocks from begin to end, and frees none of many.
    void growthOfSnapshot()
    {
        struct Growth
        {
            std::vector<StorageId> storages;
            Bytes bytes = 0;
            double firstMs = std::numeric_limits<double>::infinity();
            double lastMs = 0;
        };
        std::map<StorageId, double> alive; // allocated in the snapshot, with the time of the allocation
        for (const MemoryChange& change : timeline_.changes) {
            if (change.delta > 0)
                alive[change.storage] = change.ms;
            else
                alive.erase(change.storage);
        }
        std::map<std::uint32_t, Growth> growths;
        for (const auto& [storage, ms] : alive) {
            if (lines_.lineOf(storage) == SourceLines::none)
                continue;
            Growth& growth = growths[lines_.lineOf(storage)];
            growth.storages.push_back(storage);
            growth.bytes += step_.storages.bytes[storage];
            growth.firstMs = std::min(growth.firstMs, ms);
            growth.lastMs = std::max(growth.lastMs, ms);
        }
        constexpr std::size_t leastBlocks = 3;
        std::erase_if(growths, [&](const auto& entry) {
            const Growth& growth = entry.second;
            return growth.storages.size() < leastBlocks || growth.firstMs > timeline_.durationMs / 3
                || growth.lastMs < timeline_.durationMs * 2 / 3 || !isLargePart(growth.bytes, leastShareOfGrowth);
        });
        if (growths.empty())
            return;
        const auto most = std::ranges::max_element(growths, {}, [](const auto& entry) { return entry.second.bytes; });
        causes_.push_back(
            {CauseKind::growth,
             most->second.bytes,
             "memory grows: " + std::to_string(most->second.storages.size()) + " blocks of "
                 + formatBytes(most->second.bytes)
                 + " from one line, allocated from the snapshot's begin to its end, stay alive. A loss or "
                   "an output that is kept holds its graph: keep loss.item() or output.detach()",
             lines_.text(most->first),
             {}});
    }

    void fragmentation()
    {
        for (const OutOfMemory& failure : outOfMemoryEvents(step_)) {
            const Bytes free = failure.reserved - failure.active;
            if (free < failure.requested)
                continue;
            return causes_.push_back(fragmentationOf(failure.requested, free, lines_.text(failure.op)));
        }
        if (!run_ || run_->runs || !run_->failure)
            return;
        const CachingAllocator::OutOfMemory& memory = run_->failure->memory;
        if (memory.isFragmentation())
            causes_.push_back(fragmentationOf(memory.requested, memory.stats.reserved - memory.stats.active,
                                              lines_.text(run_->failure->op)));
    }

    static Cause fragmentationOf(Bytes requested, Bytes free, std::string line)
    {
        return {CauseKind::fragmentation,
                free,
                "fragmentation: the request for " + formatBytes(requested) + " fails while the allocator holds "
                    + formatBytes(free)
                    + " free, in pieces that are too small or in other pools. Try "
                      "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
                std::move(line),
                {}};
    }

    /// Returns the sizes of the vocabularies: rows of embeddings, and columns of softmax over classes.
    std::set<std::int64_t> vocabularies() const
    {
        std::set<std::int64_t> sizes;
        for (std::uint32_t row = 0; row < step_.ops.size(); ++row) {
            const std::string_view name = step_.opName(OpId(row));
            const bool isEmbedding = name.starts_with("aten.embedding.");
            if (!isEmbedding && !name.starts_with("aten._log_softmax."))
                continue;
            const OpSignature signature = decodedSignature(step_.signatureOf(OpId(row)));
            const TensorShape* const shape = isEmbedding ? signature.tensor(0) : signature.result();
            if (shape && !shape->sizes.empty())
                sizes.insert(isEmbedding ? shape->sizes.front() : shape->sizes.back());
        }
        sizes.erase(sizes.begin(), sizes.lower_bound(leastVocabulary));
        return sizes;
    }

    /// Returns the vocabulary of a block that has a column for each of its words; 0: none.
    std::int64_t vocabularyOf(const LiveBlock& block, const std::set<std::int64_t>& known) const
    {
        if (!block.creator.valid() || known.empty())
            return 0;
        for (const OpSignature::Value& value : decodedSignature(step_.signatureOf(block.creator)).results)
            for (const TensorShape& shape : value.tensors)
                if (shape.sizes.size() > 1 && known.contains(shape.sizes.back())
                    && bytesOf(shape) == step_.storages.requested[block.storage])
                    return shape.sizes.back();
        return 0;
    }

    void logits()
    {
        std::map<std::int64_t, std::pair<Bytes, std::vector<StorageId>>> byVocabulary;
        const std::set<std::int64_t> known = vocabularies();
        for (const LiveBlock& block : atPeak_)
            if (const std::int64_t vocabulary = vocabularyOf(block, known); vocabulary > 0) {
                byVocabulary[vocabulary].first += block.bytes;
                byVocabulary[vocabulary].second.push_back(block.storage);
            }
        for (const auto& [vocabulary, held] : byVocabulary)
            if (isLargePart(held.first, leastShareOfLogits))
                causes_.push_back({CauseKind::logits,
                                   held.first,
                                   "logits are the peak: " + formatBytes(held.first) + " of "
                                       + formatBytes(timeline_.peak) + " in " + std::to_string(held.second.size())
                                       + (held.second.size() == 1 ? " tensor" : " tensors") + " of "
                                       + groupedDigits(vocabulary)
                                       + " columns. Compute the loss in chunks, or by a fused linear cross-entropy",
                                   mainLine(held.second),
                                   {}});
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
        causes_.push_back({CauseKind::optimizerState,
                           state,
                           "the optimizer's state takes " + formatBytes(state) + " of " + formatBytes(timeline_.peak)
                               + ", more than the weights (" + formatBytes(weights)
                               + "): an optimizer with 8-bit state, or one that shards its state, takes less",
                           mainLine(storages),
                           {}});
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
    static constexpr std::array<std::string_view, 7> names{
        "growth", "unused_forward", "unused_gradients", "memory_reader", "fragmentation", "logits", "optimizer_state"};
    return names[static_cast<std::size_t>(kind)];
}

std::vector<Cause> causesOf(const StepTrace& step, const Timeline& timeline, const std::optional<CardRun>& run)
{
    return Causes(step, timeline, run).find();
}

} // namespace headroom
