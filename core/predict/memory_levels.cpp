// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/predict/memory_levels.h"

#include "core/base/common_subsequence.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <unordered_set>
#include <utility>

namespace headroom {

namespace {

std::string bytesText(Bytes bytes)
{
    return groupedDigits(bytes) + " bytes";
}

/// The allocations of one of the two steps, and the op of each allocation if known.
struct Side
{
    MemoryLevels levels;
    const StepTrace* trace = nullptr; ///< null: only the levels are known
    const Timeline* timeline = nullptr;
    std::vector<std::size_t> changes; ///< by allocation: index in Timeline::changes

    std::size_t size() const { return levels.allocations.size(); }
    const MemoryChange& change(std::size_t i) const { return timeline->changes[changes[i]]; }

    /// The place of an allocation in the step, for the user.
    std::string placeOf(std::size_t i) const
    {
        const OpId op = change(i).op;
        const bool again = change(i).recomputed || (op.valid() && (trace->ops.flags[op] & opRecomputed) != 0);
        const std::string place = again ? "recomputed " : "";
        if (!op.valid())
            return place + "between two operators";
        const Phase phase = again ? Phase::backward : trace->ops.phase[op];
        return place + "`" + std::string(trace->opName(op)) + "` of `"
            + std::string(trace->moduleFqn(trace->ops.module[op])) + "` in " + std::string(phaseName(phase));
    }

    /// By allocation: size, and the names of op and module if `named`.
    std::vector<std::uint64_t> keys(bool named) const
    {
        std::vector<std::uint64_t> keys;
        keys.reserve(size());
        for (std::size_t i = 0; i < size(); ++i) {
            const auto bytes = static_cast<std::uint64_t>(levels.allocations[i].bytes);
            std::uint64_t names = 0;
            if (const OpId op = named ? change(i).op : OpId(); op.valid()) {
                const std::hash<std::string_view> hash;
                names = hash(trace->opName(op)) * 31 + hash(trace->moduleFqn(trace->ops.module[op]));
            }
            keys.push_back(names * 0x9e3779b97f4a7c15 + bytes);
        }
        return keys;
    }
};

/// The pair of places after the last allocations.
CommonSubsequence::value_type endOf(const Side& executed, const Side& expected)
{
    return {static_cast<std::uint32_t>(executed.size()), static_cast<std::uint32_t>(expected.size())};
}

/// Pairs of corresponding allocations of the two steps: first allocations of equal name and size, then, between two
/// such pairs, allocations of equal size.
CommonSubsequence correspondence(const Side& executed, const Side& expected)
{
    const std::vector<std::uint64_t> executedBytes = executed.keys(false);
    const std::vector<std::uint64_t> expectedBytes = expected.keys(false);
    if (executed.trace == nullptr)
        return commonSubsequence(executedBytes, expectedBytes);
    CommonSubsequence named = commonSubsequence(executed.keys(true), expected.keys(true));
    named.push_back(endOf(executed, expected));
    CommonSubsequence all;
    std::uint32_t x = 0, y = 0;
    for (const auto& [nextX, nextY] : named) {
        for (const auto& [i, j] : commonSubsequence(std::span(executedBytes).subspan(x, nextX - x),
                                                    std::span(expectedBytes).subspan(y, nextY - y)))
            all.emplace_back(x + i, y + j);
        all.emplace_back(nextX, nextY);
        x = nextX + 1;
        y = nextY + 1;
    }
    all.pop_back();
    return all;
}

class Comparison
{
public:
    Comparison(const Side& executed, const Side& expected)
        : executed_(executed)
        , expected_(expected)
    {
        result_.allocations = executed.size();
        result_.executedPeak = executed.levels.peak();
    }

    LevelComparison run()
    {
        const MemoryLevels& is = executed_.levels;
        const MemoryLevels& should = expected_.levels;
        if (is.start != should.start)
            differ(is.start - should.start, [&] {
                return "the step starts with " + bytesText(is.start) + ", predicted were " + bytesText(should.start);
            });
        if (is.allocations != should.allocations)
            compareAllocations();
        if (is.end != should.end)
            differ(is.end - should.end, [&] {
                return "the step ends with " + bytesText(is.end) + ", predicted were " + bytesText(should.end);
            });
        return std::move(result_);
    }

private:
    template <class Sentence>
    void differ(Bytes difference, Sentence sentence)
    {
        if (result_.firstDifference.empty())
            result_.firstDifference = sentence();
        result_.largestDifference = std::max(result_.largestDifference, Bytes(std::abs(difference)));
    }

    void compareAllocations()
    {
        CommonSubsequence places = correspondence(executed_, expected_);
        places.push_back(endOf(executed_, expected_));
        std::size_t i = 0, j = 0;
        for (const auto& [nextI, nextJ] : places) {
            while (i < nextI && j < nextJ)
                compare(i++, j++);
            for (; i < nextI; ++i)
                onlyExecuted(i, j);
            for (; j < nextJ; ++j)
                onlyPredicted(j);
            if (i < executed_.size() && j < expected_.size())
                compare(i++, j++);
        }
    }

    void compare(std::size_t i, std::size_t j)
    {
        const MemoryLevels::Allocation& is = executed_.levels.allocations[i];
        const MemoryLevels::Allocation& should = expected_.levels.allocations[j];
        if (is == should)
            return;
        ++result_.unequalAllocations;
        differ(is.live - should.live, [&] {
            const std::string expected = expected_.placeOf(j);
            const std::string place = executed_.trace != nullptr ? executed_.placeOf(i) : expected;
            return "allocation " + std::to_string(i) + " (" + place + ") takes " + bytesText(is.bytes) + " and makes "
                + bytesText(is.live) + " live, predicted were " + bytesText(should.bytes) + " and "
                + bytesText(should.live) + (place == expected ? "" : " (" + expected + ")");
        });
    }

    void onlyExecuted(std::size_t i, std::size_t next)
    {
        const Bytes bytes = executed_.levels.allocations[i].bytes;
        ++result_.unequalAllocations;
        differ(bytes, [&] {
            std::string place;
            if (executed_.trace != nullptr)
                place = " (" + executed_.placeOf(i) + ")";
            else if (next < expected_.size())
                place = " (before " + expected_.placeOf(next) + ")";
            return "allocation " + std::to_string(i) + place + " takes " + bytesText(bytes) + " that were not predicted"
                + counts();
        });
    }

    void onlyPredicted(std::size_t j)
    {
        const Bytes bytes = expected_.levels.allocations[j].bytes;
        ++result_.allocations;
        ++result_.unequalAllocations;
        differ(bytes, [&] {
            return bytesText(bytes) + " (" + expected_.placeOf(j) + ") were predicted and not allocated" + counts();
        });
    }

    std::string counts() const
    {
        if (executed_.size() == expected_.size())
            return {};
        return "; the step allocates " + std::to_string(executed_.size()) + " times, predicted were "
            + std::to_string(expected_.size());
    }

    const Side& executed_;
    const Side& expected_;
    LevelComparison result_;
};

Side sideOf(const StepTrace& trace, const Timeline& timeline)
{
    Side side{{}, &trace, &timeline, {}};
    side.levels = levelsOf(timeline, &side.changes);
    return side;
}

/// The timeline without storages that hold gathered parameters or are buffers of collectives at any time.
Timeline withoutGathered(const StepTrace& trace, const Timeline& timeline)
{
    const auto isGathered = [](Category category) {
        return category == Category::unshardedParameter || category == Category::communication;
    };
    std::unordered_set<std::uint32_t> gathered;
    for (const MemoryChange& change : timeline.changes)
        if (isGathered(change.category))
            gathered.insert(change.storage.value);
    for (std::size_t row = 0; row < trace.collectives.size(); ++row) {
        const CollectiveKind kind = trace.collectives.kind[row];
        if (kind == CollectiveKind::allGather || kind == CollectiveKind::broadcast)
            for (const StorageId storage : trace.ops.mutated[trace.collectives.op[row]])
                gathered.insert(storage.value);
    }
    Timeline rest;
    rest.start = timeline.start;
    std::ranges::copy_if(timeline.changes, std::back_inserter(rest.changes),
                         [&](const MemoryChange& change) { return !gathered.contains(change.storage.value); });
    return rest;
}

} // namespace

Bytes MemoryLevels::peak() const
{
    Bytes highest = start;
    for (const Allocation& allocation : allocations)
        highest = std::max(highest, allocation.live);
    return highest;
}

MemoryLevels levelsOf(const Timeline& timeline, std::vector<std::size_t>* changes)
{
    MemoryLevels levels;
    levels.start = total(timeline.start);
    Bytes live = levels.start;
    for (std::size_t i = 0; i < timeline.changes.size(); ++i) {
        const MemoryChange& change = timeline.changes[i];
        live += change.delta;
        // A retyped storage leaves one category and enters another: nothing was allocated.
        const MemoryChange* before = i > 0 ? &timeline.changes[i - 1] : nullptr;
        const bool retyped = before && before->delta == -change.delta && before->storage == change.storage
            && before->recomputed == change.recomputed && before->category != change.category;
        if (change.delta <= 0 || retyped)
            continue;
        levels.allocations.push_back({change.delta, live});
        if (changes)
            changes->push_back(i);
    }
    levels.end = live;
    return levels;
}

LevelComparison compareLevels(const StepTrace& trace, const Timeline& predicted, const MemoryLevels& executed)
{
    return Comparison(Side{executed, nullptr, nullptr, {}}, sideOf(trace, predicted)).run();
}

LevelComparison compareLevels(const StepTrace& trace, const Timeline& predicted, const StepTrace& executed,
                              const Timeline& ran)
{
    LevelComparison all = Comparison(sideOf(executed, ran), sideOf(trace, predicted)).run();
    if (all.timelinesAgree() || all.executedPeak != predicted.peak)
        return all;
    const Timeline ranAlone = withoutGathered(executed, ran);
    const Timeline predictedAlone = withoutGathered(trace, predicted);
    if (Comparison(sideOf(executed, ranAlone), sideOf(trace, predictedAlone)).run().timelinesAgree())
        all.gatherDifference = std::exchange(all.firstDifference, {});
    return all;
}

} // namespace headroom
