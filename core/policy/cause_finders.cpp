// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/policy/cause_finders.h"

#include "core/cost/op_signature.h"
#include "core/cost/op_work.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <utility>

namespace headroom {

namespace {

constexpr std::int64_t leastVocabulary = 1024; ///< fewer classes make no large logits

/// Shares of the peak from which a finding is a cause.
constexpr double leastShareOfLogits = 0.2;
constexpr double leastShareOfScores = 0.3;
constexpr double leastShareOfExpansions = 0.3;

/// Whether the sizes of an argument are broadcast to the sizes of a result.
bool isBroadcastTo(const TensorShape& argument, const TensorShape& result)
{
    if (argument.sizes.size() > result.sizes.size())
        return false;
    return std::equal(argument.sizes.rbegin(), argument.sizes.rend(), result.sizes.rbegin(),
                      [](std::int64_t size, std::int64_t whole) { return size == 1 || size == whole; });
}

/// Returns "500 × 64 × 2".
std::string sizesText(const std::vector<std::int64_t>& sizes)
{
    std::string text;
    for (const std::int64_t size : sizes)
        text += (text.empty() ? "" : " × ") + groupedDigits(size);
    return text;
}

class ShapeFinder
{
public:
    ShapeFinder(const StepTrace& step, const std::vector<LiveBlock>& atPeak, Bytes peak)
        : step_(step)
        , atPeak_(atPeak)
        , peak_(peak)
    {
    }

    std::vector<FoundCause> find()
    {
        attention();
        logits();
        expansions();
        return std::move(causes_);
    }

private:
    using Held = std::pair<Bytes, std::vector<StorageId>>;

    bool isLargePart(Bytes bytes, double share) const
    {
        return static_cast<double>(bytes) >= share * static_cast<double>(peak_);
    }

    static void hold(Held& held, const LiveBlock& block)
    {
        if (!held.second.empty() && held.second.back() == block.storage)
            return;
        held.first += block.bytes;
        held.second.push_back(block.storage);
    }

    void add(CauseKind kind, const Held& held, std::string sentence)
    {
        causes_.push_back({kind, held.first, std::move(sentence), held.second, SourceLines::none});
        named_.insert(held.second.begin(), held.second.end());
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
        std::map<Extent, Held> byExtent;
        for (const LiveBlock& block : atPeak_) {
            if (!block.creator.valid())
                continue;
            for (const OpSignature::Value& value : decodedSignature(step_.signatureOf(block.creator)).results)
                for (const TensorShape& shape : value.tensors) {
                    const std::size_t rank = shape.sizes.size();
                    const Extent extent = rank > 2 ? Extent(shape.sizes[rank - 2], shape.sizes[rank - 1]) : Extent();
                    if (!known.contains(extent) || bytesOf(shape) != step_.storages.requested[block.storage])
                        continue;
                    hold(byExtent[extent], block);
                }
        }
        for (const auto& [extent, held] : byExtent)
            if (isLargePart(held.first, leastShareOfScores))
                add(CauseKind::attention, held,
                    "scores of attention are the peak: " + formatBytes(held.first) + " of " + formatBytes(peak_)
                        + " in " + std::to_string(held.second.size())
                        + (held.second.size() == 1 ? " tensor" : " tensors") + " of " + groupedDigits(extent.first)
                        + " queries and " + groupedDigits(extent.second)
                        + " keys. Call scaled_dot_product_attention, whose flash and memory-efficient kernels keep no "
                          "scores");
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
        std::map<std::int64_t, Held> byVocabulary;
        const Vocabularies known = vocabularies();
        for (const LiveBlock& block : atPeak_)
            if (const std::int64_t vocabulary = vocabularyOf(block, known); vocabulary > 0)
                hold(byVocabulary[vocabulary], block);
        for (const auto& [vocabulary, held] : byVocabulary)
            if (isLargePart(held.first, leastShareOfLogits))
                add(CauseKind::logits, held,
                    "logits are the peak: " + formatBytes(held.first) + " of " + formatBytes(peak_) + " in "
                        + std::to_string(held.second.size()) + (held.second.size() == 1 ? " tensor" : " tensors")
                        + " of " + groupedDigits(vocabulary)
                        + (known.columns.contains(vocabulary) ? " columns" : " classes")
                        + ". Compute the loss in chunks, or by a fused linear cross-entropy");
    }

    /// Returns the sizes of results with at least `leastExpansion` times the elements of all arguments: of elementwise
    /// ops on arguments that are broadcast, of copies and larger pictures, and of products of activations (all pairs).
    std::set<std::vector<std::int64_t>> expandedSizes() const
    {
        constexpr double leastExpansion = 8;
        static constexpr std::array<std::string_view, 6> copies{"aten.im2col.",         "aten.repeat.",
                                                                "aten.upsample_",       "aten._upsample_",
                                                                "aten._cdist_forward.", "aten._euclidean_dist."};
        static constexpr std::array<std::string_view, 4> products{"aten.mm.", "aten.bmm.", "aten.addmm.",
                                                                  "aten.baddbmm."};
        std::set<std::vector<std::int64_t>> found;
        for (std::uint32_t row = 0; row < step_.ops.size(); ++row) {
            const OpId op(row);
            if (step_.ops.phase[op] != Phase::forward || (step_.ops.flags[op] & opView) != 0)
                continue;
            const std::string_view name = step_.opName(op);
            const auto isOf = [&](std::string_view family) { return name.starts_with(family); };
            const OpSignature signature = decodedSignature(step_.signatureOf(op));
            const TensorShape* const result = signature.result();
            if (!result || bytesOf(*result) < MiB || name.find("convolution") != std::string_view::npos)
                continue;
            double elements = 0;
            bool isBroadcast = true;
            for (const OpSignature::Value& value : signature.arguments)
                for (const TensorShape& tensor : value.tensors) {
                    elements += static_cast<double>(transferBytes(std::span(&tensor, 1))) / tensor.itemSize;
                    isBroadcast = isBroadcast && isBroadcastTo(tensor, *result);
                }
            if (elements <= 1 || numel(*result) < leastExpansion * elements)
                continue;
            const bool isProduct = std::ranges::any_of(products, isOf);
            if (isProduct ? !readsWeights(op) : isBroadcast || std::ranges::any_of(copies, isOf))
                found.insert(result->sizes);
        }
        return found;
    }

    /// Whether an op reads a parameter, or autocast's copy of a parameter.
    bool readsWeights(OpId op) const
    {
        return std::ranges::any_of(step_.ops.inputs[op], [this](StorageId storage) {
            const OpId creator = step_.storages.creator[storage];
            return step_.storages.category[storage] == Category::parameter
                || (creator.valid() && (step_.ops.flags[creator] & opAutocastCast) != 0);
        });
    }

    void expansions()
    {
        const std::set<std::vector<std::int64_t>> known = expandedSizes();
        if (known.empty())
            return;
        Held held;
        std::pair<Bytes, std::vector<std::int64_t>> largest;
        for (const LiveBlock& block : atPeak_) {
            if (!block.creator.valid() || named_.contains(block.storage))
                continue;
            for (const OpSignature::Value& value : decodedSignature(step_.signatureOf(block.creator)).results)
                for (const TensorShape& shape : value.tensors)
                    if (known.contains(shape.sizes) && bytesOf(shape) == step_.storages.requested[block.storage]) {
                        hold(held, block);
                        largest = std::max(largest, {block.bytes, shape.sizes});
                    }
        }
        if (isLargePart(held.first, leastShareOfExpansions))
            add(CauseKind::expansion, held,
                "results much larger than their inputs are the peak, as of broadcasting: " + formatBytes(held.first)
                    + " of " + formatBytes(peak_) + " in " + std::to_string(held.second.size())
                    + (held.second.size() == 1 ? " tensor" : " tensors") + ", the largest of "
                    + sizesText(largest.second)
                    + " elements. Compute parts in a loop, each in a checkpoint if backward needs the part");
    }

    const StepTrace& step_;
    const std::vector<LiveBlock>& atPeak_;
    const Bytes peak_;
    std::vector<FoundCause> causes_;
    std::set<StorageId> named_; ///< in causes_
};

/// What a line of a snapshot holds, from step to step of the program or from call to call of a model.
struct LineGrowth
{
    std::map<StorageId, Bytes> alive;
    Bytes bytes = 0; ///< of `alive`
    std::vector<Bytes> levels; ///< `bytes` when each step or call begins; else before each allocation

    void change(const MemoryChange& change)
    {
        bytes += change.delta;
        if (change.delta > 0)
            alive[change.storage] = change.delta;
        else
            alive.erase(change.storage);
    }

    /// Whether the line holds more and more: several blocks of several steps or calls, or one that becomes longer by
    /// equal parts, as a result of torch.cat(). A block that a larger one replaces, as of a longer batch, is no growth.
    bool isGrowth(bool isRepeated) const
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
            && (alive.size() == 1 ? rises.size() == 1 : isRepeated && alive.size() >= leastRises);
    }
};

class SnapshotGrowth
{
public:
    SnapshotGrowth(const StepTrace& step, const Timeline& timeline, const SourceLines& lines)
        : step_(step)
        , lines_(lines)
    {
        for (const MemoryChange& change : timeline.changes)
            apply(change);
        if (steps_ > 0)
            beginStep(); // of what the last step leaves
    }

    std::optional<FoundCause> find() const
    {
        std::optional<FoundCause> most;
        const auto offer = [&](std::uint32_t line, const LineGrowth& growth, bool isRepeated, std::string_view times) {
            if (!growth.isGrowth(isRepeated) || (most && most->bytes >= growth.bytes))
                return;
            const auto first = std::ranges::find_if(growth.levels, [](Bytes level) { return level > 0; });
            const auto rises = growth.levels.end() - first - 1;
            const std::size_t blocks = growth.alive.size();
            most = {CauseKind::growth,
                    growth.bytes,
                    "memory grows: a line has " + formatBytes(growth.bytes) + " in " + std::to_string(blocks)
                        + (blocks == 1 ? " block" : " blocks") + ", and took "
                        + formatBytes((growth.levels.back() - *first) / rises) + " more in each of "
                        + std::to_string(rises) + std::string(times)
                        + ". A kept loss or output holds the autograd graph: keep loss.item() or "
                          "output.detach().cpu()",
                    {},
                    line};
        };
        for (const auto& [line, growth] : growths_)
            offer(line, growth, steps_ > 0, steps_ > 0 ? " steps" : " calls");
        for (const auto& [frame, growth] : calls_)
            if (steps_ == 0)
                offer(lines_.lineOf(frame), growth, true, " calls");
        return most;
    }

private:
    /// A snapshot has no steps of its own: a step begins with the first allocation of a forward after a backward pass
    /// or an optimizer. Without steps, a call of a model begins where the program allocated outside of the model.
    void apply(const MemoryChange& change)
    {
        const FrameId caller = callerOfModel(frameOf(step_, change.storage));
        if (change.op.valid() && change.delta > 0) {
            const Phase phase = step_.ops.phase[change.op];
            if (phase == Phase::forward && lastPhase_ != Phase::forward)
                beginStep();
            lastPhase_ = phase;
            if (caller.valid() && caller != lastCaller_)
                calls_[caller].levels.push_back(calls_[caller].bytes);
            lastCaller_ = caller;
        }
        if (caller.valid())
            calls_[caller].change(change);
        const std::uint32_t line = lines_.lineOf(change.storage);
        if (line == SourceLines::none)
            return;
        LineGrowth& growth = growths_[line];
        if (steps_ == 0 && change.delta > 0)
            growth.levels.push_back(growth.bytes);
        growth.change(change);
    }

    void beginStep()
    {
        for (auto& [line, growth] : growths_) {
            if (steps_ == 0)
                growth.levels.clear();
            growth.levels.resize(steps_, 0); // a line that appears later has held nothing before
            growth.levels.push_back(growth.bytes);
        }
        ++steps_;
    }

    /// Returns the frame of the program that called the outermost module around a frame; invalid: the frame is outside
    /// of modules.
    FrameId callerOfModel(FrameId frame)
    {
        if (!frame.valid())
            return {};
        const auto [entry, isNew] = callers_.try_emplace(frame);
        if (!isNew)
            return entry->second;
        FrameId caller;
        for (FrameId inner = frame; inner.valid(); inner = step_.frames.caller[inner]) {
            const FrameId outer = step_.frames.caller[inner];
            if (outer.valid() && fileOf(inner).ends_with("torch/nn/modules/module.py") && !isLibraryFile(fileOf(outer)))
                caller = outer;
        }
        return callers_[frame] = caller;
    }

    std::string_view fileOf(FrameId frame) const { return step_.strings[step_.frames.file[frame]]; }

    const StepTrace& step_;
    const SourceLines& lines_;
    std::map<std::uint32_t, LineGrowth> growths_; ///< by line
    std::map<FrameId, LineGrowth> calls_; ///< by the frame that calls a model
    std::map<FrameId, FrameId> callers_; ///< callerOfModel() of a frame
    Phase lastPhase_ = Phase::forward;
    FrameId lastCaller_;
    std::size_t steps_ = 0;
};

} // namespace

std::optional<FoundCause> growthOfSnapshot(const StepTrace& step, const Timeline& timeline, const SourceLines& lines)
{
    return SnapshotGrowth(step, timeline, lines).find();
}

std::vector<FoundCause> causesByShape(const StepTrace& step, const std::vector<LiveBlock>& atPeak, Bytes peak)
{
    return ShapeFinder(step, atPeak, peak).find();
}

} // namespace headroom
