// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/timeline/range_summary.h"

#include "core/timeline/live_tree.h"
#include "core/timeline/storage_owners.h"

#include <algorithm>
#include <functional>
#include <map>
#include <span>
#include <utility>

namespace headroom {

namespace {

using BlockKey = std::pair<StorageId, bool>; ///< with `recomputed`

/// The blocks that are made while changes pass.
class MadeBlocks
{
public:
    explicit MadeBlocks(const StepTrace& trace)
        : trace_(trace)
    {
    }

    void make(const MemoryChange& change)
    {
        const auto [place, isNew] = places_.try_emplace(BlockKey(change.storage, change.recomputed), blocks_.size());
        if (isNew)
            blocks_.push_back(
                {change.storage, 0, change.category, trace_.storages.creator[change.storage], change.recomputed});
        blocks_[place->second].bytes += change.delta;
    }
    void retype(const MemoryChange& change)
    {
        const auto place = places_.find({change.storage, change.recomputed});
        if (place != places_.end())
            blocks_[place->second].category = change.category;
    }
    /// The bytes of these blocks that are among `alive`.
    Bytes among(const std::vector<LiveBlock>& alive) const
    {
        Bytes bytes = 0;
        for (const LiveBlock& block : alive) {
            const auto place = places_.find({block.storage, block.recomputed});
            if (place != places_.end())
                bytes += std::min(block.bytes, blocks_[place->second].bytes);
        }
        return bytes;
    }
    std::vector<LiveBlock> take() &&
    {
        std::ranges::stable_sort(blocks_, std::ranges::greater(), &LiveBlock::bytes);
        return std::move(blocks_);
    }

private:
    const StepTrace& trace_;
    std::vector<LiveBlock> blocks_;
    std::map<BlockKey, std::size_t> places_;
};

/// Sums the holdings of all categories by an id, most bytes first.
template <class Id, class Holding>
std::vector<RangeSummary::Share<Id>> sharesOf(const std::vector<Holding>& holdings, Id Holding::*id)
{
    std::map<Id, RangeSummary::Share<Id>> byId;
    for (const Holding& holding : holdings) {
        RangeSummary::Share<Id>& share = byId[holding.*id];
        share.id = holding.*id;
        share.bytes += holding.bytes;
        share.blocks += holding.blocks;
    }
    std::vector<RangeSummary::Share<Id>> shares;
    for (const auto& [key, share] : byId)
        shares.push_back(share);
    std::ranges::stable_sort(shares, std::ranges::greater(), &RangeSummary::Share<Id>::bytes);
    return shares;
}

void addRuns(const StepTrace& trace, const Timeline& timeline, RangeSummary& summary)
{
    summary.runs.assign(trace.ops.size(), false);
    for (std::size_t i = 0; i < timeline.runs.size(); ++i) {
        const OpRun& run = timeline.runs[i];
        const double end = i + 1 < timeline.runs.size() ? timeline.runs[i + 1].beginMs : timeline.durationMs;
        if (!summary.range.meets(run.beginMs, end))
            continue;
        ++summary.ops;
        summary.opsAgain += run.again ? 1 : 0;
        summary.runs[run.op.value] = true;
        const auto found = std::ranges::lower_bound(trace.collectives.op, run.op);
        if (found == trace.collectives.op.end() || *found != run.op)
            continue;
        ++summary.collectives;
        summary.collectiveBytes
            += trace.collectives.bytes[static_cast<std::size_t>(found - trace.collectives.op.begin())];
    }
}

} // namespace

std::vector<bool> RangeSummary::modulesAtWork(const StepTrace& trace) const
{
    std::vector<bool> atWork(trace.modules.size(), false);
    for (std::uint32_t op = 0; op < runs.size(); ++op)
        if (const ModuleId module = trace.ops.module[OpId(op)]; runs[op] && module.valid())
            atWork[module.value] = true;
    for (const Share<ModuleId>& share : modules)
        if (share.id.valid())
            atWork[share.id.value] = true;
    return atWork;
}

RangeSummary summaryOf(const StepTrace& trace, const Timeline& timeline, TimeRange range)
{
    RangeSummary summary;
    summary.range = range;
    MadeBlocks made(trace);
    std::size_t end = 0;
    Bytes now = total(timeline.start);
    summary.atBegin = summary.peak = now;
    const std::span changes(timeline.changes);
    for (std::size_t at = 0; at < changes.size() && changes[at].ms <= range.endMs; ++at) {
        const MemoryChange& change = changes[at];
        now += change.delta;
        end = at + 1;
        if (!range.contains(change.ms)) {
            summary.atBegin = summary.peak = now;
            continue;
        }
        summary.peak = std::max(summary.peak, now);
        if (at > 0 && isRetype(changes[at - 1], change)) {
            made.retype(change);
            continue;
        }
        if (at + 1 < changes.size() && isRetype(change, changes[at + 1]))
            continue;
        if (change.delta > 0) {
            summary.made += change.delta;
            made.make(change);
        } else {
            summary.freed -= change.delta;
        }
    }
    summary.atEnd = now;
    summary.kept = made.among(liveBlocks(trace, timeline, end));
    summary.blocks = std::move(made).take();
    summary.modules = sharesOf(heldByModule(StorageOwners(trace), summary.blocks), &ModuleHolding::module);
    if (hasSourceLines(trace)) {
        summary.source = std::make_shared<const SourceLines>(trace);
        summary.lines = sharesOf(heldByLine(*summary.source, summary.blocks), &LineHolding::line);
    }
    addRuns(trace, timeline, summary);
    return summary;
}

} // namespace headroom
