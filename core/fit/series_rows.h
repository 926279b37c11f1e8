// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/fit/fit.h"
#include "core/fit/fit_row.h"

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace headroom {

/// The recordings on one GPU, by size as asked for.
struct Recordings
{
    std::string gpu;
    std::map<StepSize, Result<RecordedStep>> steps;

    /// Whether the recordings stand for another GPU; false also where nothing is recorded.
    bool standFor(const std::string& other) const;

    /// Recordings that a step of another size is calculated from: bytes are linear in the batch, and quadratic in the
    /// sequence length.
    static std::size_t points(bool variesSequence) { return variesSequence ? 3 : 2; }

    /// The step of a size from points() recordings of others: those nearest to the size that have the structure of the
    /// nearest. Null: too few are known.
    StepTracePtr calculated(const StepSize& size, bool variesSequence) const;
};

/// The rows of a series: records and calculates steps, and keeps what was found of each size. A size has an index in
/// `varied`. Rows change when a recording says otherwise than the calculation, so that references last until then.
class SeriesRows
{
public:
    using SizeIndex = std::size_t;

    /// All arguments outlive this. `other`: FitSeries::other.
    SeriesRows(const FitRequest& request, const RecordSteps& record, const FitWatch& watch, std::stop_token stop,
               Recordings& recordings, DeviceSpec gpu, std::int64_t other);

    bool stopped() const { return stop_.stop_requested(); }
    bool variesSequence() const noexcept { return variesSequence_; }
    const Sizes& varied() const noexcept { return varied_; }
    std::size_t points() const { return Recordings::points(variesSequence_); }
    int asked() const noexcept { return asked_; } ///< steps that were asked of RecordSteps

    StepSize sizeAt(SizeIndex index) const;
    std::string nameOf(SizeIndex index) const; ///< "--batch 8"
    std::string namesOf(const std::vector<SizeIndex>& indexes) const; ///< "--batch 8, 16"
    SizeIndex twice(SizeIndex index) const; ///< the index of twice the size, or of the next size

    /// Limits the range to the sizes that the program takes. Error (badInput): the program takes none of the range.
    Status askSizes();
    /// Records sizes that are not recorded yet, all at once.
    void record(const std::vector<SizeIndex>& indexes);
    bool isRecorded(SizeIndex index) const;
    const StepTrace* recorded(SizeIndex index) const; ///< null: not recorded, or the recording failed

    /// The row of a size, without a plan unless one was asked for before.
    const FitRow& row(SizeIndex index);
    /// The row with a plan, if the step does not run without one.
    const FitRow& plannedRow(SizeIndex index);
    bool runsPlain(SizeIndex index);
    bool runs(SizeIndex index);
    /// Plans rows that do not run without a plan, several at once.
    void planRows(const std::set<SizeIndex>& indexes);
    /// The size nearest to `index` that has a plan or will be planned, as one of `shown`; nullopt: none is so near.
    std::optional<SizeIndex> plannedNear(SizeIndex index, const std::set<SizeIndex>& shown, SizeIndex distance) const;
    /// The last size from `good` on that runs, or of which a plan has room for the blocks, fragmentation aside. `good`
    /// is such a size. The bytes that plans leave are about linear in the size, so that few sizes are looked at.
    SizeIndex lastWithRoom(SizeIndex good);
    double rateOf(const FitRun& run) const; ///< what makes a size the fastest: samples, of sequence lengths tokens
    /// Gives rows that do not run the plan of the next larger size that does, where it runs.
    void takePlansOfLarger();
    void keep(const std::set<SizeIndex>& shown); ///< drops all other rows

    void remark(std::string sentence);
    void forgetRates() { knowsRates_ = false; } ///< samples and tokens per second: the program does not use the size
    void setBounded(bool bounded) { series_.isBounded = bounded; }
    FitSeries finish();

private:
    void makeRows(const std::set<SizeIndex>& indexes);
    void findRooms(const std::set<SizeIndex>& indexes); ///< of rows that do not run without a plan, several at once
    bool hasRoom(SizeIndex index) const; ///< after findRooms()
    SizeIndex placeOfEdge(SizeIndex good, std::optional<SizeIndex> bad) const;
    void dropPlanners();
    FitRow newRow(SizeIndex index);
    FitRow& rowOf(SizeIndex index);
    void refuseSmaller(const std::vector<SizeIndex>& indexes, std::vector<Result<RecordedStep>>& results) const;
    void noteDifference(SizeIndex index, Bytes calculated);
    bool becomesRecorded(SizeIndex index, const RecordedStep& recorded);
    void describe();
    void publish(const std::string& next);

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
    std::map<SizeIndex, std::optional<PlanRoom>> rooms_; ///< roomForPlan() of rows that do not run without a plan
    int asked_ = 0;
    bool knowsRates_ = true;
    std::string endOfRange_; ///< why the range is shorter than asked for; empty: the range is as asked for
};

} // namespace headroom
