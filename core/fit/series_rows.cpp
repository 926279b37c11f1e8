// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/fit/series_rows.h"

#include "core/base/try.h"
#include "core/fit/fit_row.h"
#include "core/fit/learned_step.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <queue>
#include <thread>
#include <utility>

namespace headroom {
namespace {

constexpr std::size_t mostPlansAtOnce = 4; ///< a planner of a large step takes hundreds of megabytes

std::size_t plansAtOnce()
{
    return std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, mostPlansAtOnce);
}

/// Calls `work` with 0 to `count` - 1 in other threads, plansAtOnce() at a time, and `done` with each number in this
/// thread, after the work.
template <class Work, class Done>
void workInThreads(std::size_t count, const Work& work, const Done& done)
{
    std::mutex mutex;
    std::condition_variable ended;
    std::queue<std::size_t> results;
    std::atomic<std::size_t> next = 0;
    const auto run = [&] {
        for (std::size_t at = next++; at < count; at = next++) {
            work(at);
            const std::lock_guard lock(mutex);
            results.push(at);
            ended.notify_one();
        }
    };
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < std::min(count, plansAtOnce()); ++i)
        threads.emplace_back(run);
    for (std::size_t left = count; left > 0; --left) {
        std::unique_lock lock(mutex);
        ended.wait(lock, [&] { return !results.empty(); });
        const std::size_t at = results.front();
        results.pop();
        lock.unlock();
        done(at);
    }
}

void forgetRatesOf(FitRow& row)
{
    const auto forget = [](FitRun& run) { run.samplesPerSecond = run.tokensPerSecond = 0; };
    forget(row.plain);
    if (row.planned)
        forget(*row.planned);
}

} // namespace

bool Recordings::standFor(const std::string& other) const
{
    if (gpu == other)
        return true;
    const auto recorded = std::ranges::find_if(steps, [](const auto& pair) { return pair.second.ok(); });
    return recorded != steps.end() && standsFor(*recorded->second->step, other).ok();
}

StepTracePtr Recordings::calculated(const StepSize& wanted, bool variesSequence) const
{
    const auto variedOf = [&](const StepSize& size) { return variesSequence ? size.sequence : size.batch; };
    std::vector<SizedStep> known;
    for (const auto& [size, step] : steps) {
        StepSize same = size;
        (variesSequence ? same.sequence : same.batch) = variedOf(wanted);
        if (step && same == wanted)
            known.push_back({variedOf(size), step->step});
    }
    const std::int64_t target = variedOf(wanted);
    std::ranges::sort(known, {}, [&](const SizedStep& at) { return std::abs(at.size - target); });
    std::vector<SizedStep> chosen;
    for (const SizedStep& at : known)
        if (chosen.size() < points(variesSequence) && (chosen.empty() || sameStructure(*chosen.front().step, *at.step)))
            chosen.push_back(at);
    if (chosen.size() < points(variesSequence))
        return nullptr;
    const Result<StepTracePtr> step = stepAtSize(chosen, target);
    return step ? *step : nullptr;
}

SeriesRows::SeriesRows(const FitRequest& request, const RecordSteps& record, const FitWatch& watch,
                       std::stop_token stop, Recordings& recordings, DeviceSpec gpu, std::int64_t other)
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

StepSize SeriesRows::sizeAt(SizeIndex index) const
{
    StepSize size;
    size.batch = variesSequence_ ? series_.other : varied_.at(index);
    size.sequence = variesSequence_ ? varied_.at(index) : series_.other;
    if (request_.globalBatch > 0 && size.batch > 0)
        size.accumulation = request_.globalBatch / size.batch;
    return size;
}

std::string SeriesRows::nameOf(SizeIndex index) const
{
    return namesOf({index});
}

std::string SeriesRows::namesOf(const std::vector<SizeIndex>& indexes) const
{
    std::string names = request_.sizeName;
    for (const SizeIndex index : indexes)
        names += (index == indexes.front() ? " " : ", ") + std::to_string(varied_.at(index));
    return names;
}

SeriesRows::SizeIndex SeriesRows::twice(SizeIndex index) const
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

Status SeriesRows::askSizes()
{
    StepSize own = sizeAt(0);
    (variesSequence_ ? own.sequence : own.batch) = 0;
    publish("recording the program's own size");
    std::vector<Result<RecordedStep>> results = record_(std::span(&own, 1), recordings_.gpu, stop_);
    ++asked_;
    if (!results.front())
        return results.front().error();
    results.front()->step = withSortedFrees(results.front()->step);
    const StepInfo& info = results.front()->step->info;
    const std::int64_t size = variesSequence_ ? info.sequence : info.batch;
    const auto dimension
        = std::ranges::find(info.dimensions, variesSequence_ ? "sequence" : "batch", &StepInfo::Dimension::name);
    const bool isFixed = dimension == info.dimensions.end();
    const std::optional<Sizes> taken
        = isFixed ? varied_.within(size, size) : varied_.within(dimension->least, dimension->most);
    const std::string words = isFixed ? std::to_string(size) + " only: export the model again with dynamic_shapes"
                                      : std::to_string(dimension->least) + " to " + std::to_string(dimension->most);
    if (!taken)
        return badInput("no size fits the program: the program takes " + request_.sizeName + " " + words);
    if (isFixed)
        remark("the program takes " + request_.sizeName + " " + words + " to try others");
    else if (taken->at(taken->count() - 1) < varied_.at(varied_.count() - 1))
        endOfRange_ = "the program takes " + request_.sizeName + " " + words;
    varied_ = *taken;
    (variesSequence_ ? own.sequence : own.batch) = size;
    recordings_.steps.emplace(own, std::move(results.front()));
    return {};
}

bool SeriesRows::isRecorded(SizeIndex index) const
{
    return recordings_.steps.contains(recordedSize(sizeAt(index)));
}

const StepTrace* SeriesRows::recorded(SizeIndex index) const
{
    const auto step = recordings_.steps.find(recordedSize(sizeAt(index)));
    return step != recordings_.steps.end() && step->second ? step->second->step.get() : nullptr;
}

void SeriesRows::record(const std::vector<SizeIndex>& indexes)
{
    std::vector<StepSize> sizes;
    std::vector<SizeIndex> missing;
    for (const SizeIndex index : indexes)
        if (!isRecorded(index)) {
            sizes.push_back(recordedSize(sizeAt(index)));
            missing.push_back(index);
        }
    if (sizes.empty() || stopped())
        return;
    publish("recording " + namesOf(missing));
    std::vector<Result<RecordedStep>> results = record_(sizes, recordings_.gpu, stop_);
    asked_ += static_cast<int>(sizes.size());
    refuseSmaller(missing, results);
    std::map<SizeIndex, Bytes> calculated; // peaks of steps that were recorded otherwise
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        if (!results[i] && stopped())
            continue; // the stop ended the recording
        if (results[i])
            results[i]->step = withSortedFrees(results[i]->step);
        const bool agrees = !results[i] || becomesRecorded(missing[i], *results[i]);
        if (!agrees && rows_.at(missing[i]).failure.empty())
            calculated.emplace(missing[i], rows_.at(missing[i]).plain.peak);
        if (!agrees || !results[i])
            rows_.erase(missing[i]);
        recordings_.steps.emplace(sizes[i], std::move(results[i]));
        if (agrees)
            continue;
        std::erase_if(rows_, [](const auto& pair) { return !pair.second.isRecorded; });
        rooms_.clear();
    }
    for (const auto& [index, peak] : calculated)
        noteDifference(index, peak);
}

/// Remarks that the recording of a size takes other memory than was calculated.
void SeriesRows::noteDifference(SizeIndex index, Bytes calculated)
{
    constexpr double small = 0.02; // such as another choice of kernels
    const FitRow& row = rowOf(index);
    if (!row.failure.empty()
        || std::abs(static_cast<double>(row.plain.peak - calculated)) <= small * static_cast<double>(calculated))
        return;
    remark("the step of " + nameOf(index) + " has a peak of " + formatBytes(row.plain.peak) + " and not of "
           + formatBytes(calculated) + ", as calculated from other sizes: steps differ in more than "
           + request_.sizeName + ", so that calculated rows are uncertain");
}

/// Makes failures of recorded steps that have less than their size, if a smaller recorded step has its own: the
/// program's data have no more. A step of one sample says nothing, since a program may join all samples.
void SeriesRows::refuseSmaller(const std::vector<SizeIndex>& indexes, std::vector<Result<RecordedStep>>& results) const
{
    if (request_.saysSizes)
        return; // a model's input has the size
    std::vector<std::pair<std::int64_t, const StepTrace*>> steps;
    for (const auto& [size, recorded] : recordings_.steps)
        if (recorded)
            steps.emplace_back(variesSequence_ ? size.sequence : size.batch, recorded->step.get());
    for (std::size_t i = 0; i < indexes.size(); ++i)
        if (results[i])
            steps.emplace_back(varied_.at(indexes[i]), results[i]->step.get());
    std::erase_if(
        steps, [&](const auto& pair) { return pair.first < 2 || !hasSize(*pair.second, pair.first, variesSequence_); });
    const auto least = std::ranges::min_element(steps);
    for (std::size_t i = 0; i < indexes.size(); ++i) {
        const std::int64_t size = varied_.at(indexes[i]);
        if (least == steps.end() || !results[i] || size <= least->first)
            continue;
        if (const Status status = checkSize(*results[i]->step, size, variesSequence_); !status)
            results[i] = status.error();
    }
}

/// Makes a calculated row one of its recording, if the two steps are equal, and then all that was found of the row
/// holds. Returns whether they are; true also if there was no row.
bool SeriesRows::becomesRecorded(SizeIndex index, const RecordedStep& recorded)
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

FitRow SeriesRows::newRow(SizeIndex index)
{
    FitRow row;
    row.size = sizeAt(index);
    if (!isRecorded(index)) {
        row.step.step = recordings_.calculated(recordedSize(row.size), variesSequence_);
        if (!row.step.step)
            record({index});
    }
    const auto recorded = recordings_.steps.find(recordedSize(row.size));
    row.isRecorded = recorded != recordings_.steps.end();
    if (row.isRecorded && !recorded->second)
        row.failure = recorded->second.error().message;
    else if (row.isRecorded)
        row.step = *recorded->second;
    else if (!row.step.step)
        row.failure = "the search was stopped";
    return row.failure.empty() ? rowWithoutPlan(request_, gpu_, std::move(row), stop_) : row;
}

FitRow& SeriesRows::rowOf(SizeIndex index)
{
    if (const auto known = rows_.find(index); known != rows_.end())
        return known->second;
    FitRow row = newRow(index);
    FitRow& added = rows_.insert_or_assign(index, std::move(row)).first->second;
    publish("");
    return added;
}

const FitRow& SeriesRows::row(SizeIndex index)
{
    return rowOf(index);
}

const FitRow& SeriesRows::plannedRow(SizeIndex index)
{
    planRows({index});
    return rowOf(index);
}

/// Makes the rows of all indexes: a recording that says otherwise than the calculation removes rows.
void SeriesRows::makeRows(const std::set<SizeIndex>& indexes)
{
    const auto isMissing = [&](SizeIndex index) { return !rows_.contains(index); };
    for (auto next = indexes.begin(); next != indexes.end(); next = std::ranges::find_if(indexes, isMissing))
        rowOf(*next);
}

void SeriesRows::planRows(const std::set<SizeIndex>& indexes)
{
    makeRows(indexes);
    std::vector<SizeIndex> open;
    std::vector<FitRow> planned; // by place in `open`
    std::vector<StepPlannerPtr> planners;
    for (const SizeIndex index : indexes) {
        const FitRow& at = rows_.at(index);
        if (!at.failure.empty() || at.plain.runs() || at.planned)
            continue;
        open.push_back(index);
        planned.push_back(at);
        const auto room = rooms_.find(index);
        planners.push_back(room != rooms_.end() && room->second ? std::move(room->second->planner) : nullptr);
    }
    if (open.empty() || stopped())
        return;
    publish("planning " + namesOf(open));
    workInThreads(
        open.size(),
        [&](std::size_t at) {
            if (!stopped())
                addPlan(request_, gpu_, planned[at], std::move(planners[at]), stop_);
        },
        [&](std::size_t at) {
            rows_.at(open[at]) = std::move(planned[at]);
            publish("");
        });
}

std::optional<SeriesRows::SizeIndex> SeriesRows::plannedNear(SizeIndex index, const std::set<SizeIndex>& shown,
                                                             SizeIndex distance) const
{
    const auto distanceOf = [&](SizeIndex other) { return other < index ? index - other : other - index; };
    std::set<SizeIndex> known = shown;
    for (const auto& [at, row] : rows_)
        if (row.planned)
            known.insert(at);
    const auto nearest = std::ranges::min_element(known, {}, distanceOf);
    return nearest != known.end() && distanceOf(*nearest) <= distance ? std::optional(*nearest) : std::nullopt;
}

bool SeriesRows::runsPlain(SizeIndex index)
{
    return row(index).failure.empty() && row(index).plain.runs();
}

bool SeriesRows::runs(SizeIndex index)
{
    return runsPlain(index) || plannedRow(index).runs();
}

void SeriesRows::findRooms(const std::set<SizeIndex>& indexes)
{
    makeRows(indexes);
    std::vector<SizeIndex> open;
    for (const SizeIndex index : indexes)
        if (const FitRow& at = rows_.at(index); at.failure.empty() && !at.plain.runs() && !rooms_.contains(index))
            open.push_back(index);
    if (open.empty())
        return;
    publish("looking for the least memory of " + namesOf(open));
    std::vector<std::optional<PlanRoom>> rooms(open.size());
    workInThreads(
        open.size(), [&](std::size_t at) { rooms[at] = roomForPlan(request_, gpu_, rows_.at(open[at]), stop_); },
        [&](std::size_t at) { rooms_.emplace(open[at], std::move(rooms[at])); });
}

bool SeriesRows::hasRoom(SizeIndex index) const
{
    const FitRow& at = rows_.at(index);
    if (!at.failure.empty() || at.plain.runs())
        return at.failure.empty();
    const auto room = rooms_.find(index);
    return room != rooms_.end() && room->second && room->second->left >= 0;
}

/// Keeps the planners of the sizes at the edge alone: planners take much memory.
void SeriesRows::dropPlanners()
{
    const auto hasRoom = [](const auto& room) { return room.second && room.second->left >= 0; };
    const auto bad = std::ranges::find_if_not(rooms_, hasRoom);
    for (auto at = rooms_.begin(); at != rooms_.end(); ++at)
        if (at->second && at != bad && std::next(at) != bad)
            at->second->planner = nullptr;
}

/// The size at which the room ends, if what is left is linear in the size; twice `good` where too little is known.
SeriesRows::SizeIndex SeriesRows::placeOfEdge(SizeIndex good, std::optional<SizeIndex> bad) const
{
    const SizeIndex beyond = bad.value_or(std::min(twice(twice(twice(good))) + 1, varied_.count()));
    const auto leftAt = [&](SizeIndex index) -> std::optional<double> {
        const auto room = rooms_.find(index);
        if (room == rooms_.end() || !room->second)
            return std::nullopt;
        return static_cast<double>(room->second->left);
    };
    const std::optional<double> left = leftAt(good);
    std::optional<SizeIndex> other = bad;
    if (!other)
        for (const auto& [index, room] : rooms_)
            if (index < good)
                other = index;
    const std::optional<double> leftOfOther = other ? leftAt(*other) : std::nullopt;
    double place = bad ? static_cast<double>(good + (*bad - good) / 2) : static_cast<double>(twice(good));
    if (left && leftOfOther) {
        const double distance = static_cast<double>(*other) - static_cast<double>(good);
        const double perIndex = (*leftOfOther - *left) / distance;
        if (perIndex < 0)
            place = static_cast<double>(good) + std::floor(*left / -perIndex);
    }
    place = std::clamp(place, static_cast<double>(good + 1), static_cast<double>(beyond - 1));
    return static_cast<SizeIndex>(place);
}

SeriesRows::SizeIndex SeriesRows::lastWithRoom(SizeIndex good)
{
    constexpr int triesOfLine = 3; ///< after these the range is halved in turn: what is left is not linear
    std::optional<SizeIndex> bad;
    for (int tries = 0; good + 1 < bad.value_or(varied_.count()) && !stopped(); ++tries) {
        const SizeIndex place
            = bad && tries >= triesOfLine && tries % 2 == 1 ? good + (*bad - good) / 2 : placeOfEdge(good, bad);
        // Two sizes at once: the two that a line begins with, then those on both sides of the edge.
        std::set<SizeIndex> looked{place};
        if (const SizeIndex second = tries == 0 ? twice(place) : place + 1; second < bad.value_or(varied_.count()))
            looked.insert(second);
        findRooms(looked);
        for (const SizeIndex index : looked) {
            if (!hasRoom(index)) {
                bad = index;
                break;
            }
            good = index;
        }
        dropPlanners();
    }
    return good;
}

void SeriesRows::takePlansOfLarger()
{
    const FitRow* larger = nullptr;
    for (auto at = rows_.rbegin(); at != rows_.rend(); ++at) {
        FitRow& row = at->second;
        if (!row.failure.empty())
            continue;
        if (!row.runs() && larger != nullptr)
            tryPlanOf(request_, gpu_, *larger, row, stop_);
        if (row.plan)
            larger = &row;
    }
}

void SeriesRows::keep(const std::set<SizeIndex>& shown)
{
    std::erase_if(rows_, [&](const auto& pair) { return !shown.contains(pair.first); });
}

void SeriesRows::remark(std::string sentence)
{
    if (std::ranges::find(series_.remarks, sentence) == series_.remarks.end())
        series_.remarks.push_back(std::move(sentence));
}

FitSeries SeriesRows::finish()
{
    if (!series_.isBounded && !endOfRange_.empty() && !stopped())
        remark(endOfRange_);
    describe();
    publish("");
    return std::move(series_);
}

double SeriesRows::rateOf(const FitRun& run) const
{
    return variesSequence_ ? run.tokensPerSecond : run.samplesPerSecond;
}

/// Copies the rows into the series and sets the series' indexes.
void SeriesRows::describe()
{
    series_.rows.clear();
    series_.largestPlain = series_.largest = series_.fastest = {};
    for (const auto& [key, at] : rows_) {
        const std::size_t index = series_.rows.size();
        series_.rows.push_back(at);
        if (!knowsRates_)
            forgetRatesOf(series_.rows.back());
        if (!at.failure.empty() || !at.runs())
            continue;
        if (at.plain.runs())
            series_.largestPlain = index;
        series_.largest = index;
        const double rate = rateOf(series_.rows.back().best());
        if (rate > 0 && (!series_.fastest || rate > rateOf(series_.rows[*series_.fastest].best())))
            series_.fastest = index;
    }
}

void SeriesRows::publish(const std::string& next)
{
    if (!watch_)
        return;
    describe();
    watch_(series_, next);
}

} // namespace headroom
