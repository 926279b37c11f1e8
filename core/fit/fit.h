// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/cost/step_times.h"
#include "core/fit/sizes.h"
#include "core/policy/plan_answer.h"
#include "core/trace/step_trace.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

namespace headroom {

/// The search for sizes of a training step that run on a card, and for the fastest of these sizes. A step runs on a
/// card as runOnCard() says: reserved memory counts, over a whole training run.

/// The size of a training step. A value of 0 is the program's own.
struct StepSize
{
    std::int64_t batch = 0; ///< samples of a micro-batch: of one forward and backward
    std::int64_t sequence = 0; ///< tokens of a sample
    std::int64_t accumulation = 1; ///< micro-batches of one optimizer step

    friend auto operator<=>(const StepSize&, const StepSize&) = default;
};

struct RecordedStep
{
    StepTracePtr step;
    std::filesystem::path file; ///< where the step is kept; empty: nowhere
};

/// Records the program's steps of these sizes on the simulated GPU `gpu`, whatever memory the GPU has; several may run
/// at once. Returns a result for each size, in order. Any thread may call.
using RecordSteps = std::function<std::vector<Result<RecordedStep>>(std::span<const StepSize> sizes,
                                                                    const std::string& gpu, const std::stop_token&)>;

struct FitRequest
{
    std::vector<std::string> gpus; ///< names of DeviceSpec, each once
    Sizes batch; ///< at most one of `batch` and `sequence` is a range, which the search divides
    Sizes sequence;
    /// Samples of an optimizer step; each batch is a divisor, and accumulates. 0: each batch is an optimizer step.
    std::int64_t globalBatch = 0;
    double share = 1; ///< share of the GPU's memory for this program, 0 to 1
    Bytes beside = 0; ///< bytes of the GPU that another program takes
    std::optional<std::string> settings; ///< of PYTORCH_CUDA_ALLOC_CONF; nullopt: those of the recorded program
    TimeChoice times; ///< without `gpu`
    std::string sizeName = "--batch"; ///< the argument of the searched size, for sentences
    /// The recordings say which sizes the program takes (StepInfo::dimensions), as those of models do.
    bool saysSizes = false;
};

/// Training with a step on a card, without a plan or with one.
struct FitRun
{
    CardRun card;
    Bytes peak = 0; ///< bytes that the step allocates; of a plan that does not run, the least that any plan allocates
    double recomputeMs = 0;
    double stepMs = 0; ///< of an optimizer step: StepClock, with all micro-batches
    double samplesPerSecond = 0; ///< 0: the batch size is not known
    double tokensPerSecond = 0; ///< 0: the step has no sequence length

    bool runs() const noexcept { return card.runs; }
};

/// A size on a card.
struct FitRow
{
    StepSize size; ///< as recorded: own sizes of the program are filled in where the recording knows them
    std::int64_t ownMicroBatches
        = 1; ///< that the program itself makes of each of `size`, with the batch's samples each
    bool isRecorded = false; ///< false: the step was calculated from recordings of other sizes
    std::string failure; ///< why there is no step of this size; empty: there is one
    RecordedStep step;
    FitRun plain;
    std::optional<FitRun> planned; ///< with the best plan for the card, if the step does not run without a plan
    PlanAnswerPtr plan; ///< of `planned`; null: no plan is needed, or none exists

    bool runs() const noexcept { return plain.runs() || (planned && planned->runs()); }
    const FitRun& best() const noexcept { return plain.runs() || !planned ? plain : *planned; }
};

/// The sizes on one card for one value of the other size, ascending. The indexes are rows; nullopt: no such row.
struct FitSeries
{
    std::string gpu;
    std::int64_t other = 0; ///< the sequence length if batches are searched, and vice versa; 0: the program's own
    std::vector<FitRow> rows;
    std::optional<std::size_t> largestPlain; ///< the largest size that runs without a plan
    std::optional<std::size_t> largest; ///< the largest size that runs
    std::optional<std::size_t> fastest; ///< the most samples a second; of sequence lengths the most tokens
    /// The size after `largest` was tried and does not run; false: the range ends, or no size runs.
    bool isBounded = false;
    std::vector<std::string> remarks; ///< sentences: what the search met
};

struct FitResult
{
    std::vector<FitSeries> series; ///< by card, then by `other`
    int recordings = 0; ///< steps that were asked of RecordSteps
};

/// Receives each series while the search goes on: the rows so far, and what is done next as a few words.
using FitWatch = std::function<void(const FitSeries& series, const std::string& next)>;

/// The GPU `gpu` for a step of the request, without what FitRequest::share and `beside` leave to others. Errors
/// (badInput): as cardFor(); nothing is left.
Result<Card> cardOf(const FitRequest& request, const std::string& gpu, const StepTrace& step);

/// Answers the request. A list of sizes is recorded size by size. A range is searched: two recordings (three of a
/// sequence length) give the steps of all other sizes by stepAtSize(); the largest sizes that run without and with a
/// plan, the sizes after these, and the fastest size are then recorded, and a recording that says otherwise is used in
/// the calculation. So the rows that the indexes of FitSeries name, and the rows after the largest ones, are recorded.
/// Where recordings differ in structure, every step is recorded.
///
/// A recording for one GPU is used for others that PyTorch runs the same ops on (standsFor()). A size that cannot be
/// recorded is a row with a failure. Errors (badInput): an unknown GPU, sizes that do not go together, wrong
/// allocator settings, a step that no plan can be made of. Stopped by `stop`, the result has the rows so far.
Result<FitResult> fit(const FitRequest& request, const RecordSteps& record, const FitWatch& watch = {},
                      const std::stop_token& stop = {});

} // namespace headroom
