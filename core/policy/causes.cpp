// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/policy/causes.h"

#include "core/cost/op_signature.h"
#include "core/cost/op_work.h"
#include "core/timeline/live_tree.h"
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

constexpr std::int64_t leastVocabulary = 1024; ///< fewer classes make no large logits

/// Shares of the peak from which a finding is a cause.
constexpr double leastShareOfLogits = 0.2;
constexpr double leastShareOfScores = 0.3;
constexpr double leastShareOfState = 0.3;
constexpr double leastShareOfGrowth = 0.02;
constexpr double leastShareOfGradients = 0.05;
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
            unusedForwards();
            unusedGradients();
            memoryReaders();
            oldGradients();
            betweenSteps();
        } else {
            growthOfSnapshot();
        }
        fragmentation();
        const auto before = static_cast<std::ptrdiff_t>(causes_.size());
        attention();
        logits();
        std::ranges::stable_sort(causes_.begin() + before, causes_.end(), std::greater(), &Cause::bytes);
        optimizerState();
        return std::move(causes_);
    }

private:
    bool isLargePart(Bytes bytes, double share) const
    {
        return static_cast<double>(bytes) >= share * static_cast<double>(timeline_.peak);
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

    void unusedGradients()
    {
        const std::vector<StorageId> unused = headroom::unusedGradients(step_);
        Bytes bytes = 0;
        for (const StorageId storage : unused)
            bytes += step_.storages.bytes[storage];
        if (bytes < MiB || !isLargePart(bytes, leastShareOfGrowth))
            return;
        add(CauseKind::unusedGradients, bytes,
            "backward makes " + formatBytes(bytes)
                + " of gradients that no optimizer reads, as of a teacher or of a frozen model: call "
                  "requires_grad_(False) on the parameters, or run the forward under torch.no_grad()",
            mainLine(unused));
    }

    void memoryReaders()
    {
        constexpr std::string_view beginning = "the model reads the card's memory while it computes";
        for (const std::string& remark : step_.info.remarks)
            if (remark.starts_with(beginning))
                add(CauseKind::memoryReader, 0, remark, SourceLines::none, remark);
    }

    /// Gradients of the step before that are alive at the peak, and that zero_grad() frees afterwards, unread.
    void oldGradients()
    {
        std::set<StorageId> old;
        for (const LiveBlock& block : atPeak_)
            if (block.category == Category::gradient && !block.creator.valid())
                old.insert(block.storage);
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
            static_cast<double>(bytes) >= leastShareOfLogits * static_cast<double>(level))
            sentence += ". " + std::to_string(kept.second) + " blocks of " + formatBytes(kept.first)
                + " live there together: outputs that are kept, as in a list, take their bytes even without a graph. "
                  "Keep output.cpu(), or the figures that count";
        add(CauseKind::betweenSteps, level, sentence, SourceLines::none);
    }

    /// What a line of a snapshot holds, from step to step of the program.
    struct LineGrowth
    {
        std::map<StorageId, Bytes> alive;
        Bytes bytes = 0; ///< of `alive`
        std::vector<Bytes> levels; ///< `bytes` when each step begins; without steps, before each allocation

        /// Whether the line holds more and more: several blocks of several steps, or one that becomes longer by equal
        /// parts, as a result of torch.cat(). A block that a larger one replaces, as of a longer batch, is no growth.
        bool isGrowth(bool hasSteps) const
        {
            constexpr std::size_t leastRises = 3;
            std::set<Bytes> rises;
            std::size_t count = 0;
            for (std::size_t at = 1; at < levels.size(); ++at) {
                const Bytes rise = levels[at] - levels[at - 1];
                if (rise < 0)
                    return false;
                if (rise > 0 && levels[at - 1] > 0) {
                    rises.insert(rise);
                    ++count;
                }
            }
            // Layers of one forward may be allocated by one line, too.
            return count >= leastRises
                && (alive.size() == 1 ? rises.size() == 1 : hasSteps && alive.size() >= leastRises);
        }
    };

    /// A snapshot has no steps of its own: a step begins with the first allocation of a forward after a backward pass
    /// or an optimizer.
    void growthOfSnapshot()
    {
        std::map<std::uint32_t, LineGrowth> growths;
        Phase last = Phase::forward;
        std::size_t steps = 0;
        const auto beginStep = [&] {
            for (auto& [line, growth] : growths) {
                if (steps == 0)
                    growth.levels.clear();
                growth.levels.resize(steps, 0); // a line that appears later has held nothing before
                growth.levels.push_back(growth.bytes);
            }
            ++steps;
        };
        for (const MemoryChange& change : timeline_.changes) {
            if (change.op.valid() && change.delta > 0) {
                const Phase phase = step_.ops.phase[change.op];
                if (phase == Phase::forward && last != Phase::forward)
                    beginStep();
                last = phase;
            }
            const std::uint32_t line = lines_.lineOf(change.storage);
            if (line == SourceLines::none)
                continue;
            LineGrowth& growth = growths[line];
            if (steps == 0 && change.delta > 0)
                growth.levels.push_back(growth.bytes);
            growth.bytes += change.delta;
            if (change.delta > 0)
                growth.alive[change.storage] = change.delta;
            else
                growth.alive.erase(change.storage);
        }
        const bool hasSteps = steps > 0;
        if (hasSteps)
            beginStep(); // of what the last step leaves
        std::erase_if(growths, [&](const auto& entry) {
            return !entry.second.isGrowth(hasSteps) || !isLargePart(entry.second.bytes, leastShareOfGrowth);
        });
        if (growths.empty())
            return;
        const auto most = std::ranges::max_element(growths, {}, [](const auto& entry) { return entry.second.bytes; });
        const LineGrowth& growth = most->second;
        const std::size_t blocks = growth.alive.size();
        const auto first = std::ranges::find_if(growth.levels, [](Bytes level) { return level > 0; });
        const auto rises = growth.levels.end() - first - 1;
        add(CauseKind::growth, growth.bytes,
            "memory grows: a line has " + formatBytes(growth.bytes) + " in " + std::to_string(blocks)
                + (blocks == 1 ? " block" : " blocks") + ", and took "
                + formatBytes((growth.levels.back() - *first) / rises) + " more in each of " + std::to_string(rises)
                + (hasSteps ? " steps" : " calls")
                + ". A kept loss or output holds the autograd graph: keep loss.item() or output.detach().cpu()",
            most->first);
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

    using Extent = std::pair<std::int64_t, std::int64_t>; ///< the last two sizes: queries and keys

    /// Returns the extents of results of batched products that a softmax reads or makes: scores of attention.
    std::set<Extent> scoreExtents() const
    {
        constexpr std::int64_t leastKeys = 256;
        std::set<Extent> products, softmaxes, both;
        for (std::uint32_t row = 0; row < step_.ops.size(); ++row) {
            const std::string_view name = step_.opName(OpId(row));
            const bool isProduct = name.starts_with("aten.bmm.") || name.starts_with("aten.baddbmm.");
            if (!isProduct && !name.starts_with("aten._softmax.") && !name.starts_with("aten._safe_softmax."))
                continue;
            const OpSignature signature = decodedSignature(step_.signatureOf(OpId(row)));
            const TensorShape* const shape = signature.result();
            if (shape && shape->sizes.size() > 2 && shape->sizes.back() >= leastKeys)
                (isProduct ? products : softmaxes).emplace(*(shape->sizes.end() - 2), shape->sizes.back());
        }
        std::ranges::set_intersection(products, softmaxes, std::inserter(both, both.end()));
        return both;
    }

    void attention()
    {
        const std::set<Extent> known = scoreExtents();
        if (known.empty())
            return;
        std::map<Extent, std::pair<Bytes, std::vector<StorageId>>> byExtent;
        for (const LiveBlock& block : atPeak_) {
            if (!block.creator.valid())
                continue;
            for (const OpSignature::Value& value : decodedSignature(step_.signatureOf(block.creator)).results)
                for (const TensorShape& shape : value.tensors) {
                    const std::size_t rank = shape.sizes.size();
                    const Extent extent = rank > 2 ? Extent(shape.sizes[rank - 2], shape.sizes[rank - 1]) : Extent();
                    if (!known.contains(extent) || bytesOf(shape) != step_.storages.requested[block.storage])
                        continue;
                    auto& held = byExtent[extent];
                    if (held.second.empty() || held.second.back() != block.storage) {
                        held.first += block.bytes;
                        held.second.push_back(block.storage);
                    }
                }
        }
        for (const auto& [extent, held] : byExtent)
            if (isLargePart(held.first, leastShareOfScores))
                add(CauseKind::attention, held.first,
                    "scores of attention are the peak: " + formatBytes(held.first) + " of "
                        + formatBytes(timeline_.peak) + " in " + std::to_string(held.second.size())
                        + (held.second.size() == 1 ? " tensor" : " tensors") + " of " + groupedDigits(extent.first)
                        + " queries and " + groupedDigits(extent.second)
                        + " keys. Call scaled_dot_product_attention, whose flash and memory-efficient kernels keep no "
                          "scores",
                    mainLine(held.second));
    }

    struct Vocabularies
    {
        std::set<std::int64_t> columns; ///< sizes of the last dimension of logits
        std::set<std::pair<std::int64_t, double>> inside; ///< sizes of another dimension, and elements of logits
    };

    /// Returns the numbers of classes of the step's log_softmax ops. Without such an op, as under a fused loss, the
    /// rows of embeddings count.
    Vocabularies vocabularies() const
    {
        Vocabularies found;
        std::set<std::int64_t> words;
        bool hasLoss = false;
        for (std::uint32_t row = 0; row < step_.ops.size(); ++row) {
            const std::string_view name = step_.opName(OpId(row));
            const bool isEmbedding = name.starts_with("aten.embedding.");
            if (!isEmbedding && !name.starts_with("aten._log_softmax."))
                continue;
            const OpSignature signature = decodedSignature(step_.signatureOf(OpId(row)));
            const TensorShape* const shape = isEmbedding ? signature.tensor(0) : signature.result();
            if (!shape || shape->sizes.empty())
                continue;
            if (isEmbedding) {
                words.insert(shape->sizes.front());
                continue;
            }
            hasLoss = true;
            const auto rank = static_cast<std::int64_t>(shape->sizes.size());
            const std::int64_t dimension = (signature.integer(1, 0, -1) + rank) % rank;
            const std::int64_t classes = shape->sizes[static_cast<std::size_t>(dimension)];
            if (classes < leastVocabulary)
                continue;
            if (dimension + 1 == rank)
                found.columns.insert(classes);
            else
                found.inside.emplace(classes, numel(*shape));
        }
        if (!hasLoss)
            found.columns.insert(words.lower_bound(leastVocabulary), words.end());
        return found;
    }

    /// Returns the vocabulary of a block that has an element for each class and row; 0: none.
    std::int64_t vocabularyOf(const LiveBlock& block, const Vocabularies& known) const
    {
        if (!block.creator.valid() || (known.columns.empty() && known.inside.empty()))
            return 0;
        for (const OpSignature::Value& value : decodedSignature(step_.signatureOf(block.creator)).results)
            for (const TensorShape& shape : value.tensors) {
                if (shape.sizes.size() < 2 || bytesOf(shape) != step_.storages.requested[block.storage])
                    continue;
                if (known.columns.contains(shape.sizes.back()))
                    return shape.sizes.back();
                for (const auto& [classes, elements] : known.inside)
                    if (elements == numel(shape) && std::ranges::find(shape.sizes, classes) != shape.sizes.end())
                        return classes;
            }
        return 0;
    }

    void logits()
    {
        std::map<std::int64_t, std::pair<Bytes, std::vector<StorageId>>> byVocabulary;
        const Vocabularies known = vocabularies();
        for (const LiveBlock& block : atPeak_)
            if (const std::int64_t vocabulary = vocabularyOf(block, known); vocabulary > 0) {
                byVocabulary[vocabulary].first += block.bytes;
                byVocabulary[vocabulary].second.push_back(block.storage);
            }
        for (const auto& [vocabulary, held] : byVocabulary)
            if (isLargePart(held.first, leastShareOfLogits))
                add(CauseKind::logits, held.first,
                    "logits are the peak: " + formatBytes(held.first) + " of " + formatBytes(timeline_.peak) + " in "
                        + std::to_string(held.second.size()) + (held.second.size() == 1 ? " tensor" : " tensors")
                        + " of " + groupedDigits(vocabulary)
                        + (known.columns.contains(vocabulary) ? " columns" : " classes")
                        + ". Compute the loss in chunks, or by a fused linear cross-entropy",
                    mainLine(held.second));
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
    static constexpr std::array<std::string_view, 10> names{
        "growth",        "unused_forward", "unused_gradients", "memory_reader", "old_gradients",
        "between_steps", "fragmentation",  "attention",        "logits",        "optimizer_state"};
    return names[static_cast<std::size_t>(kind)];
}

std::vector<Cause> causesOf(const StepTrace& step, const Timeline& timeline, const std::optional<CardRun>& run)
{
    return Causes(step, timeline, run).find();
}

} // namespace headroom
