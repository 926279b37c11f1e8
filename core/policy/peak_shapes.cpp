// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/policy/peak_shapes.h"

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

class ShapeCauses
{
public:
    ShapeCauses(const StepTrace& step, const std::vector<LiveBlock>& atPeak, Bytes peak)
        : step_(step)
        , atPeak_(atPeak)
        , peak_(peak)
    {
    }

    std::vector<ShapeCause> find()
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
        causes_.push_back({kind, held.first, std::move(sentence), held.second});
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
    std::vector<ShapeCause> causes_;
    std::set<StorageId> named_; ///< in causes_
};

} // namespace

std::vector<ShapeCause> causesByShape(const StepTrace& step, const std::vector<LiveBlock>& atPeak, Bytes peak)
{
    return ShapeCauses(step, atPeak, peak).find();
}

} // namespace headroom
