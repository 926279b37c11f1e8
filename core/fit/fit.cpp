// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/fit/fit.h"

#include "core/base/try.h"
#include "core/fit/fit_row.h"
#include "core/fit/learned_step.h"

#include <algorithm>
#include <functional>
#include <list>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace headroom {
namespace {

using SizeIndex = std::size_t; ///< of Sizes

/// The recordings on one GPU, by size as asked for.
struct Recordings
{
    std::string gpu;
    std::map<StepSize, Result<RecordedStep>> steps;
};

/// Whether the recordings stand for another GPU; false also where nothing is recorded.
bool standFor(const Recordings& recordings, const std::string& gpu)
{
    if (recordings.gpu == gpu)
        return true;
    const auto recorded = std::ranges::find_if(recordings.steps, [](const auto& pair) { return pair.second.ok(); });
    return recorded != recordings.steps.end() && standsFor(*recorded->second->step, gpu).ok();
}

/// The search over the sizes of one series.
class SeriesSearch
{
public:
    SeriesSearch(const FitRequest& request, const RecordSteps& record, const FitWatch& watch, std::stop_token stop,
                 Recordings& recordings, DeviceSpec gpu, std::int64_t other)
        : request_(request)
        , record_(record)
        , watch_(watch)
        , stop_(std::move(stop))
        , recordings_(recordings)
        , gpu_(std::move(gpu))
        , varied_(request.sequence.isRange() ? request.sequence : request.batch)
        , variesSequence_(request.sequence.isRange())
    {
        series_.gpu = gpu_.name;
        series_.other = other;
    }

    Result<FitSeries> run()
    {
        RETURN_IF_ERROR(varied_.isRange() ? searchRange() : recordAll());
        nameRows();
        publish("");
        return std::move(series_);
    }

    int recordings() const noexcept { return asked_; }

private:
    StepSize sizeAt(SizeIndex index) const
    {
        StepSize size;
        size.batch = variesSequence_ ? series_.other : varied_.at(index);
        size.sequence = variesSequence_ ? varied_.at(index) : series_.other;
        if (request_.globalBatch > 0 && size.batch > 0)
            size.accumulation = request_.globalBatch / size.batch;
        return size;
    }
    std::int64_t variedOf(const StepSize& size) const { return variesSequence_ ? size.sequence : size.batch; }

    std::string nameOf(SizeIndex index) const { return request_.sizeName + " " + std::to_string(varied_.at(index)); }

    bool isRecorded(SizeIndex index) const { return recordings_.steps.contains(recordedSize(sizeAt(index))); }

    /// Records sizes that are not recorded yet, all at once.
    void record(const std::vector<SizeIndex>& indexes)
    {
        std::vector<StepSize> sizes;
        std::vector<SizeIndex> missing;
        for (const SizeIndex index : indexes)
            if (!isRecorded(index)) {
                sizes.push_back(recordedSize(sizeAt(index)));
                missing.push_back(index);
            }
        if (sizes.empty() || stop_.stop_requested())
            return;
        std::string names;
        for (const SizeIndex index : missing)
            names += (names.empty() ? "" : ", ") + std::to_string(varied_.at(index));
        publish("recording " + request_.sizeName + " " + names);
        std::vector<Result<RecordedStep>> results = record_(sizes, recordings_.gpu, stop_);
        asked_ += static_cast<int>(sizes.size());
        if (stop_.stop_requested())
            return;
        for (std::size_t i = 0; i < sizes.size(); ++i) {
            const bool agrees = !results[i] || becomesRecorded(missing[i], *results[i]);
            if (!agrees || !results[i])
                rows_.erase(missing[i]);
            recordings_.steps.emplace(sizes[i], std::move(results[i]));
            if (agrees)
                continue;
            std::erase_if(rows_, [](const auto& pair) { return !pair.second.isRecorded; });
            rooms_.clear();
        }
    }

    /// Makes a calculated row one of its recording, if the two steps are equal, and then all that was found of the row
    /// holds. Returns whether they are; true also if there was no row.
    bool becomesRecorded(SizeIndex index, const RecordedStep& recorded)
    {
        const auto row = rows_.find(index);
        if (row == rows_.end())
            return true;
        TimeChoice times = request_.times;
        times.gpu = gpu_.name;
        const Result<TimedStep> timed = withTimes(recorded.step, times);
        const StepTracePtr& calculated = row->second.step.step;
        if (!timed || !calculated || !sameStructure(*calculated, *timed->step)
            || !std::ranges::equal(calculated->storages.requested.rows, timed->step->storages.requested.rows)
            || !std::ranges::equal(calculated->ops.ms.rows, timed->step->ops.ms.rows))
            return false;
        row->second.isRecorded = true;
        row->second.step = {timed->step, recorded.file};
        return true;
    }

    /// The step of a size from recordings of others: those nearest to it that have the structure of the nearest.
    /// Null: too few are known.
    StepTracePtr calculated(SizeIndex index) const
    {
        const StepSize wanted = recordedSize(sizeAt(index));
        std::vector<SizedStep> known;
        for (const auto& [size, step] : recordings_.steps) {
            StepSize same = size;
            (variesSequence_ ? same.sequence : same.batch) = variedOf(wanted);
            if (step && same == wanted)
                known.push_back({variedOf(size), step->step});
        }
        const std::int64_t target = variedOf(wanted);
        std::ranges::sort(known, {}, [&](const SizedStep& at) { return std::abs(at.size - target); });
        std::vector<SizedStep> chosen;
        for (const SizedStep& at : known)
            if (chosen.size() < points() && (chosen.empty() || sameStructure(*chosen.front().step, *at.step)))
                chosen.push_back(at);
        if (chosen.size() < points())
            return nullptr;
        const Result<StepTracePtr> step = stepAtSize(chosen, target);
        return step ? *step : nullptr;
    }

    /// Recordings that calculate a step: bytes are linear in the batch, and quadratic in the sequence length.
    std::size_t points() const { return variesSequence_ ? 3 : 2; }

    /// The row of a size, without a plan unless one was asked for before.
    FitRow& row(SizeIndex index)
    {
        if (const auto known = rows_.find(index); known != rows_.end())
            return known->second;
        RecordedStep step;
        if (!isRecorded(index)) {
            step.step = calculated(index);
            if (!step.step)
                record({index});
        }
        FitRow row;
        row.size = sizeAt(index);
        const auto recorded = recordings_.steps.find(recordedSize(row.size));
        row.isRecorded = recorded != recordings_.steps.end();
        if (row.isRecorded && !recorded->second)
            row.failure = recorded->second.error().message;
        else if (row.isRecorded)
            step = *recorded->second;
        else if (!step.step)
            row.failure = "the search was stopped";
        if (row.failure.empty())
            row = rowWithoutPlan(request_, gpu_, std::move(step), std::move(row), stop_);
        FitRow& added = rows_.insert_or_assign(index, std::move(row)).first->second;
        publish("");
        return added;
    }

    /// The row with a plan, if the step does not run without one.
    FitRow& plannedRow(SizeIndex index)
    {
        FitRow& at = row(index);
        if (at.failure.empty() && !at.plain.runs() && !at.planned) {
            publish("planning " + nameOf(index));
            addPlan(request_, gpu_, at, stop_);
            publish("");
        }
        return at;
    }

    bool runsPlain(SizeIndex index) { return row(index).failure.empty() && row(index).plain.runs(); }
    bool runs(SizeIndex index) { return runsPlain(index) || plannedRow(index).runs(); }

    /// Whether the size runs, or a plan has room for its blocks, fragmentation aside.
    bool hasRoom(SizeIndex index)
    {
        const FitRow& at = row(index);
        if (!at.failure.empty() || at.plain.runs() || at.planned)
            return at.failure.empty() && at.runs();
        const auto known = rooms_.find(index);
        if (known != rooms_.end())
            return known->second;
        return rooms_.emplace(index, hasRoomForPlan(request_, gpu_, at, stop_)).first->second;
    }

    /// The last index from `first` on of the sizes that run: the last with room, or, where plans fragment, one before.
    std::optional<SizeIndex> lastThatRuns(SizeIndex first)
    {
        if (!runs(first))
            return std::nullopt;
        const SizeIndex most = *last(first, [&](SizeIndex index) { return hasRoom(index); });
        return runs(most) ? most : divided(first, most, [&](SizeIndex index) { return runs(index); });
    }

    /// Doubles a size from `good` on, which runs, while `runs` holds. Returns the last size, and in `bad` the first that
    /// does not; nullopt: the range ends.
    template <class Runs>
    SizeIndex doubled(SizeIndex good, const Runs& runs, std::optional<SizeIndex>& bad)
    {
        while (good + 1 < varied_.count() && !stop_.stop_requested()) {
            const SizeIndex twice = std::min(nextAfterTwice(good), varied_.count() - 1);
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
        while (bad - good > 1 && !stop_.stop_requested()) {
            const SizeIndex middle = good + (bad - good) / 2;
            (runs(middle) ? good : bad) = middle;
        }
        return good;
    }

    /// The index that `find` finds, where that size and the next one are recorded.
    std::optional<SizeIndex> recorded(SizeIndex first, const std::function<std::optional<SizeIndex>()>& find)
    {
        while (!stop_.stop_requested()) {
            const std::optional<SizeIndex> found = find();
            std::vector<SizeIndex> missing;
            const SizeIndex from = found.value_or(first);
            for (SizeIndex index = from; index < varied_.count() && index <= from + (found ? 1 : 0); ++index)
                if (!isRecorded(index))
                    missing.push_back(index);
            if (missing.empty())
                return found;
            record(missing);
        }
        return std::nullopt;
    }

    /// Records the sizes that others are calculated from. Returns the index of the first size that can be recorded;
    /// nullopt: none can.
    std::optional<SizeIndex> learn()
    {
        const SizeIndex count = varied_.count();
        std::vector<SizeIndex> wanted;
        // Modules treat a batch of one apart: a dimension of one has other strides, and BatchNorm refuses it.
        SizeIndex at = varied_.at(0) == 1 && count > 3 && !variesSequence_ ? 1 : 0;
        for (std::size_t tries = 0; tries < 3 * points() && at < count; ++tries) {
            wanted.push_back(at);
            if (wanted.size() >= points()) {
                record(wanted);
                if (stop_.stop_requested())
                    return std::nullopt;
                std::erase_if(wanted, [&](SizeIndex index) { return !recordings_.steps.at(recordedSize(sizeAt(index))); });
                if (wanted.size() >= points())
                    break;
            }
            at = nextAfterTwice(at);
        }
        record(wanted);
        std::erase_if(wanted, [&](SizeIndex index) {
            const auto step = recordings_.steps.find(recordedSize(sizeAt(index)));
            return step == recordings_.steps.end() || !step->second;
        });
        if (wanted.empty())
            return std::nullopt;
        noteDifferences(wanted);
        return wanted.front();
    }

    /// The index of twice the size, or of the next size.
    SizeIndex nextAfterTwice(SizeIndex index) const
    {
        const std::int64_t wanted = 2 * varied_.at(index);
        SizeIndex next = index + 1;
        SizeIndex beyond = std::min(varied_.count(), 2 * index + static_cast<SizeIndex>(wanted) + 2);
        while (next + 1 < beyond) {
            const SizeIndex middle = next + (beyond - next) / 2;
            (varied_.at(middle) <= wanted ? next : beyond) = middle;
        }
        return next;
    }

    void noteDifferences(const std::vector<SizeIndex>& recorded)
    {
        for (std::size_t i = 1; i < recorded.size(); ++i) {
            const StepTrace& one = *recordings_.steps.at(recordedSize(sizeAt(recorded[i - 1])))->step;
            const StepTrace& other = *recordings_.steps.at(recordedSize(sizeAt(recorded[i])))->step;
            const std::string sizes = nameOf(recorded[i - 1]) + " and " + std::to_string(varied_.at(recorded[i]));
            if (const Status same = sameStructure(one, other); !same)
                remark("the steps of " + sizes + " differ in more than sizes (" + same.error().message
                       + "), so that steps are recorded and not calculated");
            else if (sameSizes(one, other)) {
                ignored_ = true;
                remark("the steps of " + sizes + " are equal to the byte: the program does not use "
                       + request_.sizeName);
            }
        }
    }

    void remark(std::string sentence)
    {
        if (std::ranges::find(series_.remarks, sentence) == series_.remarks.end())
            series_.remarks.push_back(std::move(sentence));
    }

    /// Limits the range to the sizes that the program takes. Error (badInput): it takes none of the range.
    Status askSizes()
    {
        StepSize own = sizeAt(0);
        (variesSequence_ ? own.sequence : own.batch) = 0;
        publish("recording the program's own size");
        std::vector<Result<RecordedStep>> results = record_(std::span(&own, 1), recordings_.gpu, stop_);
        ++asked_;
        if (!results.front())
            return results.front().error();
        const StepInfo& info = results.front()->step->info;
        const std::int64_t size = variesSequence_ ? info.sequence : info.batch;
        const auto dimension = std::ranges::find(info.dimensions, variesSequence_ ? "sequence" : "batch",
                                                 &StepInfo::Dimension::name);
        const bool isFixed = dimension == info.dimensions.end();
        const std::optional<Sizes> taken
            = isFixed ? varied_.within(size, size) : varied_.within(dimension->least, dimension->most);
        const std::string words = isFixed ? std::to_string(size) + " only: export the model again with dynamic_shapes"
                                          : std::to_string(dimension->least) + " to " + std::to_string(dimension->most);
        if (!taken)
            return badInput("none of the sizes is one of the program, which takes " + request_.sizeName + " " + words);
        if (isFixed)
            remark("the program takes " + request_.sizeName + " " + words + " to try others");
        varied_ = *taken;
        (variesSequence_ ? own.sequence : own.batch) = size;
        recordings_.steps.emplace(own, std::move(results.front()));
        return {};
    }

    Status searchRange()
    {
        if (request_.saysSizes)
            RETURN_IF_ERROR(askSizes());
        const std::optional<SizeIndex> first = learn();
        if (first)
            RETURN_IF_ERROR(plannable(*recordings_.steps.at(recordedSize(sizeAt(*first)))->step));
        if (!first || ignored_) {
            showRecorded();
            return {};
        }
        std::set<SizeIndex> shown;
        const auto show = [&](SizeIndex index) {
            if (index < varied_.count())
                shown.insert(index);
        };
        show(0);
        const std::optional<SizeIndex> plain = recorded(
            *first, [&] { return last(*first, [&](SizeIndex index) { return runsPlain(index); }); });
        const SizeIndex from = plain.value_or(*first);
        const std::optional<SizeIndex> most = recorded(from, [&] { return lastThatRuns(from); });
        const SizeIndex end = most.value_or(*first);
        for (SizeIndex index = 0; index <= end && !stop_.stop_requested(); index = nextAfterTwice(index))
            show(index);
        for (const auto& found : {plain, most})
            if (found) {
                show(*found);
                show(*found + 1);
            }
        // Where the fastest size with a plan is, between the largest ones without and with it.
        if (plain && most)
            for (SizeIndex quarter = 1; quarter < 4; ++quarter)
                show(*plain + (*most - *plain) * quarter / 4);
        for (const SizeIndex index : shown)
            if (!stop_.stop_requested())
                plannedRow(index);
        if (stop_.stop_requested())
            return {};
        keep(shown);
        recordFastest(shown);
        series_.isBounded = most && *most + 1 < varied_.count() && !stop_.stop_requested();
        noteFailureAfter(most);
        return {};
    }

    /// Records the fastest of the rows, until the fastest is recorded.
    void recordFastest(const std::set<SizeIndex>& shown)
    {
        while (!stop_.stop_requested()) {
            std::optional<SizeIndex> best;
            for (const SizeIndex index : shown)
                if (row(index).runs()
                    && (!best || row(index).best().samplesPerSecond > row(*best).best().samplesPerSecond))
                    best = index;
            if (!best || isRecorded(*best))
                return;
            record({*best});
            for (const SizeIndex index : shown)
                plannedRow(index);
        }
    }

    void noteFailureAfter(const std::optional<SizeIndex>& most)
    {
        if (!most || *most + 1 >= varied_.count() || row(*most + 1).failure.empty() || stop_.stop_requested())
            return;
        series_.isBounded = false;
        remark("larger sizes are not known: the program fails at " + nameOf(*most + 1));
    }

    void keep(const std::set<SizeIndex>& shown)
    {
        std::erase_if(rows_, [&](const auto& pair) { return !shown.contains(pair.first); });
    }

    /// Shows what is recorded, and nothing else.
    void showRecorded()
    {
        for (const auto& [size, step] : recordings_.steps)
            for (SizeIndex index = 0; index < std::min<SizeIndex>(varied_.count(), 4096); ++index)
                if (recordedSize(sizeAt(index)) == size)
                    plannedRow(index);
    }

    Status recordAll()
    {
        std::vector<SizeIndex> all(varied_.count());
        for (SizeIndex index = 0; index < all.size(); ++index)
            all[index] = index;
        record(all);
        for (const SizeIndex index : all)
            if (!stop_.stop_requested())
                plannedRow(index);
        std::erase_if(all, [&](SizeIndex index) { return !row(index).failure.empty(); });
        noteDifferencesOfList(all);
        return {};
    }

    void noteDifferencesOfList(const std::vector<SizeIndex>& recorded)
    {
        if (recorded.size() < 2)
            return;
        const auto step = [&](SizeIndex index) -> const StepTrace& { return *row(index).step.step; };
        if (sameSizes(step(recorded.front()), step(recorded.back())))
            remark("the steps of " + nameOf(recorded.front()) + " and " + std::to_string(varied_.at(recorded.back()))
                   + " are equal to the byte: the program does not use " + request_.sizeName);
    }

    /// Moves the rows into the series and sets its indexes.
    void nameRows()
    {
        copyRows();
        for (std::size_t index = 0; index < series_.rows.size(); ++index) {
            const FitRow& at = series_.rows[index];
            if (!at.failure.empty() || !at.runs())
                continue;
            if (at.plain.runs())
                series_.largestPlain = index;
            series_.largest = index;
            const double rate = at.best().samplesPerSecond;
            if (rate > 0 && (!series_.fastest || rate > series_.rows[*series_.fastest].best().samplesPerSecond))
                series_.fastest = index;
        }
    }

    void copyRows()
    {
        series_.rows.clear();
        for (const auto& [index, at] : rows_)
            series_.rows.push_back(at);
    }

    void publish(const std::string& next)
    {
        if (!watch_)
            return;
        copyRows();
        watch_(series_, next);
    }

    const FitRequest& request_;
    const RecordSteps& record_;
    const FitWatch& watch_;
    std::stop_token stop_;
    Recordings& recordings_;
    DeviceSpec gpu_;
    Sizes varied_;
    bool variesSequence_;
    FitSeries series_;
    std::map<SizeIndex, FitRow> rows_;
    std::map<SizeIndex, bool> rooms_; ///< hasRoomForPlan() of rows without a plan
    int asked_ = 0;
    bool ignored_ = false;
};

/// The batches that divide the global batch, as a list.
Result<Sizes> dividing(const FitRequest& request)
{
    std::vector<std::int64_t> divisors;
    const Sizes& batch = request.batch;
    const std::size_t count = batch.count();
    for (std::size_t index = 0; index < count && batch.at(index) <= request.globalBatch; ++index)
        if (request.globalBatch % std::max<std::int64_t>(batch.at(index), 1) == 0)
            divisors.push_back(batch.at(index));
    if (divisors.empty() || batch.isOwn())
        return badInput("no batch divides the global batch " + std::to_string(request.globalBatch)
                        + ": expected batches such as 1.." + std::to_string(request.globalBatch));
    return Sizes::list(std::move(divisors));
}

Result<FitRequest> checked(FitRequest request)
{
    if (request.gpus.empty())
        return badInput("the card is missing: name one or several, such as rtx-4090-24gb,a100-80gb");
    if (!(request.share > 0 && request.share <= 1))
        return badInput("the share of the card's memory: expected a number above 0, up to 1");
    if (request.beside < 0)
        return badInput("the memory beside: expected a size, such as 12GiB");
    if (request.batch.isRange() && request.sequence.isRange())
        return badInput("batch and sequence length are both ranges: expected a list of one of the two, such as 512,1024");
    if (request.globalBatch > 0 && request.sequence.isRange())
        return badInput("a global batch is divided into batches: expected a list of sequence lengths, such as 512,1024");
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
    std::vector<DeviceSpec> gpus;
    for (const std::string& name : request.gpus) {
        ASSIGN_OR_RETURN(DeviceSpec gpu, findDeviceSpec(name));
        gpus.push_back(std::move(gpu));
    }
    const Sizes& others = request.sequence.isRange() ? request.batch : request.sequence;
    std::list<Recordings> recordings;
    FitResult result;
    for (const DeviceSpec& gpu : gpus) {
        auto own = std::ranges::find_if(recordings, [&](const Recordings& at) { return standFor(at, gpu.name); });
        if (own == recordings.end())
            own = recordings.insert(recordings.end(), Recordings{gpu.name, {}});
        for (std::size_t other = 0; other < others.count() && !stop.stop_requested(); ++other) {
            SeriesSearch search(request, record, watch, stop, *own, gpu, others.at(other));
            ASSIGN_OR_RETURN(FitSeries series, search.run());
            result.series.push_back(std::move(series));
            result.recordings += search.recordings();
        }
    }
    return result;
}

} // namespace headroom
