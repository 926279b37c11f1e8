// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/fit/changed_step.h"

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <vector>

namespace headroom {
namespace {

/// The step with the requested bytes that `bytesOf` returns for each block; null: nothing changes.
StepTracePtr withBytes(const StepTracePtr& step, const std::function<Bytes(StorageId)>& bytesOf)
{
    struct Columns
    {
        std::vector<Bytes> requested, rounded;
        StepTracePtr step; ///< owns the other columns
    };
    auto columns = std::make_shared<Columns>();
    columns->step = step;
    bool isChanged = false;
    for (std::uint32_t id = 0; id < step->storages.size(); ++id) {
        const Bytes bytes = bytesOf(StorageId(id));
        isChanged = isChanged || bytes != step->storages.requested[StorageId(id)];
        columns->requested.push_back(bytes);
        columns->rounded.push_back(roundedToBlock(bytes));
    }
    if (!isChanged)
        return nullptr;
    auto changed = std::make_shared<StepTrace>(*step);
    changed->storages.requested.rows = columns->requested;
    changed->storages.bytes.rows = columns->rounded;
    changed->info.arguments.clear();
    changed->memory = std::move(columns);
    return changed;
}

/// The category that each block has last.
std::vector<Category> lastCategories(const StepTrace& step)
{
    std::vector<Category> categories(step.storages.category.begin(), step.storages.category.end());
    for (std::uint32_t at = 0; at < step.events.size(); ++at)
        if (step.events.kind[EventIndex(at)] == EventKind::retype)
            categories[step.events.a[EventIndex(at)]] = static_cast<Category>(step.events.b[EventIndex(at)]);
    return categories;
}

/// By StorageId: whether the optimizer makes the block and drops the block again in the step.
std::vector<bool> optimizerScratch(const StepTrace& step)
{
    std::vector<bool> isScratch(step.storages.size());
    for (std::uint32_t at = 0; at < step.events.size(); ++at) {
        if (step.events.kind[EventIndex(at)] != EventKind::free)
            continue;
        const StorageId storage(step.events.a[EventIndex(at)]);
        const OpId creator = step.storages.creator[storage];
        isScratch[storage.value] = creator.valid() && step.ops.phase[creator] == Phase::optimizer;
    }
    return isScratch;
}

/// The op of the largest cross entropy in forward: the one that makes log-probabilities; nullopt: there is none.
std::optional<OpId> crossEntropy(const StepTrace& step)
{
    std::optional<OpId> largest;
    Bytes most = 0;
    for (std::uint32_t op = 0; op < step.ops.size(); ++op) {
        const std::string_view name = step.opName(OpId(op));
        const auto outputs = step.ops.outputs[OpId(op)];
        if (name.find("log_softmax") == std::string_view::npos || step.ops.phase[OpId(op)] != Phase::forward
            || outputs.empty() || step.storages.requested[outputs[0]] <= most)
            continue;
        largest = OpId(op);
        most = step.storages.requested[outputs[0]];
    }
    return largest;
}

} // namespace

StepTracePtr withFusedOptimizer(const StepTracePtr& step)
{
    const std::vector<bool> isScratch = optimizerScratch(*step);
    return withBytes(
        step, [&](StorageId storage) { return isScratch[storage.value] ? 0 : step->storages.requested[storage]; });
}

StepTracePtr withEightBitOptimizer(const StepTracePtr& step)
{
    constexpr Bytes recorded = 4, leastElements = 4096, block = 256;
    const std::vector<Category> categories = lastCategories(*step);
    const std::vector<bool> isScratch = optimizerScratch(*step);
    return withBytes(step, [&](StorageId storage) -> Bytes {
        const Bytes bytes = step->storages.requested[storage];
        if (isScratch[storage.value])
            return 0;
        const Bytes elements = bytes / recorded;
        if (categories[storage.value] != Category::optimizer || elements < leastElements)
            return bytes;
        return elements + recorded * ((elements + block - 1) / block);
    });
}

StepTracePtr withChunkedLoss(const StepTracePtr& step, int chunks)
{
    const std::optional<OpId> loss = crossEntropy(*step);
    if (!loss)
        return nullptr;
    const Bytes logits = step->storages.requested[step->ops.outputs[*loss][0]];
    // The same elements in 2, 4 or 8 bytes, from the logits on: a weight of the same size is older than the step.
    const std::set<Bytes> sizes{logits / 2, logits, 2 * logits};
    return withBytes(step, [&](StorageId storage) {
        const Bytes bytes = step->storages.requested[storage];
        const OpId creator = step->storages.creator[storage];
        const bool isLogits = creator.valid() && sizes.contains(bytes) && step->ops.phase[creator] != Phase::optimizer;
        return isLogits ? (bytes + chunks - 1) / chunks : bytes;
    });
}

Bytes gradientsKeptAtPeak(const StepTrace& step, const Timeline& timeline)
{
    if (timeline.peakChange == Timeline::npos)
        return 0;
    const double peakMs = timeline.changes[timeline.peakChange].ms;
    // Blocks that backward writes to before the peak would be there with None, too.
    std::set<std::uint32_t> written;
    double ms = 0;
    for (std::uint32_t op = 0; op < step.ops.size() && ms <= peakMs; ++op) {
        for (const StorageId storage : step.ops.mutated[OpId(op)])
            if (step.ops.phase[OpId(op)] == Phase::backward)
                written.insert(storage.value);
        ms += step.ops.ms[OpId(op)];
    }
    Bytes kept = 0;
    for (const LiveBlock& block : liveBlocks(step, timeline, timeline.peakChange + 1))
        if (block.category == Category::gradient && !block.creator.valid() && !written.contains(block.storage.value))
            kept += block.bytes;
    return kept;
}

} // namespace headroom
