// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/fit/fit.h"

#include "core/allocator/allocator_rules.h"
#include "core/base/try.h"
#include "core/fit/fit_row.h"
#include "core/fit/learned_step.h"
#include "core/fit/series_rows.h"
#include "core/policy/step_planner.h"

#include <algorithm>
#include <functional>
#include <list>
#include <set>
#include <string>
#include <utility>

namespace headroom {
namespace {

using SizeIndex = SeriesRows::SizeIndex;

/// The search over the sizes of one series.
class SeriesSearch
{
public:
    SeriesSearch(SeriesRows& rows, const FitRequest& request)
        : rows_(rows)
        , request_(request)
    {
    }

    Status run()
    {
        if (!rows_.varied().isRange())
            return recordAll();
        if (request_.saysSizes)
            RETURN_IF_ERROR(rows_.askSizes());
        return searchRange();
    }

private:
    /// The last index from `first` on of the sizes that run: the last with room, or, where plans fragment, one a little
    /// before.
    std::optional<SizeIndex> lastThatRuns(SizeIndex first)
    {
        const auto runs = [&](SizeIndex index) { return rows_.runs(index); };
        if (!runs(first))
            return std::nullopt;
        const SizeIndex most = rows_.lastWithRoom(first);
        const auto before = [&](SizeIndex distance) { return most - std::min(distance, most - first); };
        SizeIndex bad = most + 1;
        for (SizeIndex distance = 0; !rows_.stopped(); distance = 4 * distance + 3) {
            const SizeIndex near = before(distance);
            const SizeIndex far = before(2 * distance + 1);
            rows_.planRows({near, far}); // at once
            if (runs(near))
                return divided(near, bad, runs);
            if (runs(far))
                return divided(far, near, runs);
            bad = far;
        }
        return first;
    }

    /// Doubles a size from `good` on, which runs, while `runs` holds. Returns the last size, and in `bad` the first
    /// that does not; nullopt: the range ends.
    template <class Runs>
    SizeIndex doubled(SizeIndex good, const Runs& runs, std::optional<SizeIndex>& bad)
    {
        while (good + 1 < rows_.varied().count() && !rows_.stopped()) {
            const SizeIndex twice = std::min(rows_.twice(good), rows_.varied().count() - 1);
            if (!runs(twice)) {
                bad = twice;
                break;
            }
            good = twice;
        }
        return good;
    }

    /// The last index from `first` on of the sizes that satisfy `runs`, if all sizes below the last do; nullopt: the
    /// first size does not.
    template <class Runs>
    std::optional<SizeIndex> last(SizeIndex first, const Runs& runs)
    {
        if (!runs(first))
            return std::nullopt;
        std::optional<SizeIndex> bad;
        const SizeIndex good = doubled(first, runs, bad);
        return bad ? divided(good, *bad, runs) : good;
    }

    /// The last index of `good` to `bad` that satisfies `runs`, which `good` does and `bad` does not.
    template <class Runs>
    SizeIndex divided(SizeIndex good, SizeIndex bad, const Runs& runs)
    {
        while (bad - good > 1 && !rows_.stopped()) {
            const SizeIndex middle = good + (bad - good) / 2;
            (runs(middle) ? good : bad) = middle;
        }
        return good;
    }

    /// The index that `find` finds, where that size and the next one are recorded; a smaller one, where the program
    /// fails at that size.
    std::optional<SizeIndex> recorded(SizeIndex first, const std::function<std::optional<SizeIndex>()>& find)
    {
        std::optional<SizeIndex> lastBeforeFailure;
        while (!rows_.stopped()) {
            std::optional<SizeIndex> found = find();
            if (found && lastBeforeFailure)
                found = std::min(*found, *lastBeforeFailure);
            std::vector<SizeIndex> missing;
            const SizeIndex from = found.value_or(first);
            for (SizeIndex index = from; index < rows_.varied().count() && index <= from + (found ? 1 : 0); ++index)
                if (!rows_.isRecorded(index))
                    missing.push_back(index);
            if (missing.empty())
                return found;
            rows_.record(missing);
            if (found && rows_.recorded(*found) == nullptr)
                lastBeforeFailure = recordBelowFailure(first, *found);
        }
        return std::nullopt;
    }

    /// Records sizes between `good`, a recorded size, and `bad`, where the program fails, until a size is recorded and
    /// the program fails at the next. Returns that size. Round sizes come first: a program may take multiples of a
    /// number alone.
    SizeIndex recordBelowFailure(SizeIndex good, SizeIndex bad)
    {
        while (bad - good > 1 && !rows_.stopped()) {
            const SizeIndex middle = rows_.varied().roundest(good + 1, bad - 1);
            rows_.record({middle});
            (rows_.recorded(middle) != nullptr ? good : bad) = middle;
        }
        return good;
    }

    /// Records the sizes that others are calculated from. Returns the index of the first size that can be recorded;
    /// nullopt: none can.
    std::optional<SizeIndex> learn()
    {
        const SizeIndex count = rows_.varied().count();
        std::vector<SizeIndex> wanted;
        // Modules treat a batch of one apart: a dimension of one has other strides, and BatchNorm refuses it.
        SizeIndex at = rows_.varied().at(0) == 1 && count > 3 && !rows_.variesSequence() ? 1 : 0;
        for (std::size_t tries = 0; tries < 3 * rows_.points() && at < count; ++tries) {
            wanted.push_back(at);
            if (wanted.size() >= rows_.points()) {
                rows_.record(wanted);
                if (rows_.stopped())
                    return std::nullopt;
                std::erase_if(wanted, [&](SizeIndex index) { return rows_.recorded(index) == nullptr; });
                if (wanted.size() >= rows_.points())
                    break;
            }
            at = rows_.twice(at);
        }
        rows_.record(wanted);
        std::erase_if(wanted, [&](SizeIndex index) { return rows_.recorded(index) == nullptr; });
        if (wanted.empty())
            return std::nullopt;
        noteDifferences(wanted);
        return wanted.front();
    }

    void noteDifferences(const std::vector<SizeIndex>& recorded)
    {
        for (std::size_t i = 1; i < recorded.size(); ++i) {
            const StepTrace& one = *rows_.recorded(recorded[i - 1]);
            const StepTrace& other = *rows_.recorded(recorded[i]);
            const std::string sizes
                = rows_.nameOf(recorded[i - 1]) + " and " + std::to_string(rows_.varied().at(recorded[i]));
            if (const Status same = sameStructure(one, other); !same)
                rows_.remark("the steps of " + sizes + " differ in more than sizes (" + same.error().message
                             + "), so that steps are recorded and not calculated");
            else if (sameSizes(one, other)) {
                ignored_ = true;
                rows_.remark("the steps of " + sizes + " are equal to the byte: the program does not use "
                             + request_.sizeName);
            }
        }
    }

    Status searchRange()
    {
        const std::optional<SizeIndex> first = learn();
        if (first)
            RETURN_IF_ERROR(plannable(*rows_.recorded(*first)));
        if (!first || ignored_) {
            showRecorded();
            if (ignored_)
                rows_.forgetRates();
            return {};
        }
        std::set<SizeIndex> shown;
        const auto show = [&](SizeIndex index) {
            if (index < rows_.varied().count())
                shown.insert(index);
        };
        show(0);
        const std::optional<SizeIndex> plain
            = recorded(*first, [&] { return last(*first, [&](SizeIndex index) { return rows_.runsPlain(index); }); });
        const SizeIndex from = plain.value_or(*first);
        const std::optional<SizeIndex> most = recorded(from, [&] { return lastThatRuns(from); });
        const SizeIndex end = most.value_or(*first);
        for (SizeIndex index = 0; index <= end && !rows_.stopped(); index = rows_.twice(index))
            show(index);
        for (const auto& found : {plain, most})
            if (found) {
                show(*found);
                show(*found + 1);
            }
        // Where the fastest size with a plan is, between the largest ones without and with it.
        if (plain && most)
            for (SizeIndex quarter = 1; quarter < 4; ++quarter) {
                const SizeIndex wanted = *plain + (*most - *plain) * quarter / 4;
                show(rows_.plannedNear(wanted, shown, (*most - *plain) / nearby).value_or(wanted));
            }
        rows_.planRows(shown);
        if (rows_.stopped())
            return {};
        rows_.keep(shown);
        rows_.takePlansOfLarger();
        recordFastest(shown);
        rows_.setBounded(most && *most + 1 < rows_.varied().count() && !rows_.stopped());
        noteFailureAfter(most);
        return {};
    }

    /// Records the fastest of the rows, until the fastest is recorded.
    void recordFastest(const std::set<SizeIndex>& shown)
    {
        while (!rows_.stopped()) {
            std::optional<SizeIndex> best;
            for (const SizeIndex index : shown)
                if (rows_.row(index).runs()
                    && (!best || rows_.rateOf(rows_.row(index).best()) > rows_.rateOf(rows_.row(*best).best())))
                    best = index;
            if (!best || rows_.isRecorded(*best))
                return;
            rows_.record({*best});
            rows_.planRows(shown);
        }
    }

    void noteFailureAfter(const std::optional<SizeIndex>& most)
    {
        if (!most || *most + 1 >= rows_.varied().count() || rows_.row(*most + 1).failure.empty() || rows_.stopped())
            return;
        rows_.setBounded(false);
        rows_.remark("larger sizes are not known: the program fails at " + rows_.nameOf(*most + 1));
    }

    /// Shows what is recorded, and nothing else.
    void showRecorded()
    {
        for (SizeIndex index = 0; index < std::min<SizeIndex>(rows_.varied().count(), 4096); ++index)
            if (rows_.isRecorded(index))
                rows_.plannedRow(index);
    }

    Status recordAll()
    {
        std::vector<SizeIndex> all(rows_.varied().count());
        for (SizeIndex index = 0; index < all.size(); ++index)
            all[index] = index;
        rows_.record(all);
        rows_.planRows({all.begin(), all.end()});
        std::erase_if(all, [&](SizeIndex index) { return !rows_.row(index).failure.empty(); });
        noteDifferencesOfList(all);
        return {};
    }

    void noteDifferencesOfList(const std::vector<SizeIndex>& recorded)
    {
        if (recorded.size() < 2)
            return;
        const auto step = [&](SizeIndex index) -> const StepTrace& { return *rows_.row(index).step.step; };
        if (sameSizes(step(recorded.front()), step(recorded.back())))
            rows_.remark("the steps of " + rows_.nameOf(recorded.front()) + " and "
                         + std::to_string(rows_.varied().at(recorded.back()))
                         + " are equal to the byte: the program does not use " + request_.sizeName);
        else
            return;
        rows_.forgetRates();
    }

    static constexpr SizeIndex nearby = 16; ///< part of a range in which one size stands for another

    SeriesRows& rows_;
    const FitRequest& request_;
    bool ignored_ = false; ///< the program does not use the size
};

/// The batches that divide the global batch, as a list.
Result<Sizes> dividing(const FitRequest& request)
{
    std::vector<std::int64_t> divisors;
    const Sizes& batch = request.batch;
    for (std::int64_t small = 1; small <= request.globalBatch / small; ++small)
        for (const std::int64_t divisor : {small, request.globalBatch / small})
            if (request.globalBatch % small == 0 && batch.contains(divisor))
                divisors.push_back(divisor);
    if (divisors.empty())
        return badInput("no batch divides the global batch " + std::to_string(request.globalBatch)
                        + ": expected batches such as 1.." + std::to_string(request.globalBatch));
    return Sizes::list(std::move(divisors));
}

Result<FitRequest> checked(FitRequest request)
{
    if (!(request.share > 0 && request.share <= 1))
        return badInput("the share of the card's memory: expected a number above 0, up to 1");
    if (request.beside < 0)
        return badInput("the memory beside: expected a size, such as 12GiB");
    if (request.batch.isRange() && request.sequence.isRange())
        return badInput("batch and sequence length are both ranges: expected a list for either, such as 512,1024");
    if (request.globalBatch > 0 && request.sequence.isRange())
        return badInput(
            "a global batch is divided into batches: expected a list of sequence lengths, such as 512,1024");
    if (request.globalBatch > 0) {
        ASSIGN_OR_RETURN(request.batch, dividing(request));
    }
    return request;
}

} // namespace

Result<FitResult> fit(const FitRequest& given, const RecordSteps& record, const FitWatch& watch,
                      const std::stop_token& stop)
{
    ASSIGN_OR_RETURN(const FitRequest request, checked(given));
    ASSIGN_OR_RETURN(const std::vector<DeviceSpec> gpus, gpusOf(request));
    const Sizes& others = request.sequence.isRange() ? request.batch : request.sequence;
    std::list<Recordings> recordings;
    FitResult result;
    for (const DeviceSpec& gpu : gpus) {
        auto own = std::ranges::find_if(recordings, [&](const Recordings& at) { return at.standFor(gpu.name); });
        if (own == recordings.end())
            own = recordings.insert(recordings.end(), Recordings{gpu.name, {}});
        for (std::size_t other = 0; other < others.count() && !stop.stop_requested(); ++other) {
            SeriesRows rows(request, record, watch, stop, *own, gpu, others.at(other));
            RETURN_IF_ERROR(SeriesSearch(rows, request).run());
            result.recordings += rows.asked();
            result.series.push_back(rows.finish());
        }
    }
    return result;
}

} // namespace headroom
