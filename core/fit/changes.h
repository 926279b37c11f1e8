// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/policy/plan_answer.h"
#include "core/trace/step_trace.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

namespace headroom {

/// What a change of a training program costs, in the order in which changes are listed.
enum class ChangeCost : std::uint8_t {
    nothing, ///< at most time that is not noticed
    time, ///< a longer step
    numerics, ///< other rounding, or an optimizer with other state
    hardware, ///< more or other GPUs
};
std::string_view changeCostName(ChangeCost cost); ///< "nothing", "time", "numerics", "hardware"

/// A change of a training program, and what the step takes with the change.
struct Change
{
    ChangeCost cost = ChangeCost::nothing;
    std::string what; ///< "fused optimizer"
    std::string how; ///< the code or the setting: "torch.optim.AdamW(…, fused=True)"
    Bytes peak = 0; ///< allocated
    Bytes freed = 0; ///< the peak before, less this one
    CardRun run; ///< on the card, or on `gpu`
    double stepMs = 0; ///< of an optimizer step; 0: not known
    double addedMs = 0; ///< more than before for as many samples; negative: faster
    /// Whether a step with the change was recorded. Otherwise `peak` and `run` are calculated from the step, and
    /// `rests` says on what.
    bool isRecorded = false;
    std::string rests; ///< empty: on nothing else than the step and the model of the allocator
    std::string gpu; ///< another card that the change needs; empty: the same card
    std::vector<std::string> options; ///< of `torch-headroom record` that record the change; empty: none do
    PlanAnswerPtr plan; ///< of the change that is a plan

    bool runs() const noexcept { return run.runs; }
};

/// Records a variant of the program: with options of `torch-headroom record` added to the command, or what does the
/// same in a script. Error: as recording, or the program has no such variant, which is then left out.
using RecordVariant = std::function<Result<StepTracePtr>(const std::vector<std::string>& options)>;

/// The step before any change, for comparison.
struct Unchanged
{
    Bytes peak = 0;
    CardRun run;
    double stepMs = 0;
};

/// How sure the figures of a change are: "recorded", "planned" or "calculated".
std::string_view changeSource(const Change& change);

struct Changes
{
    Unchanged before;
    std::vector<Change> list; ///< by cost, then by added time; changes that free nothing are left out
};

/// What would make a step take less memory on a card, each change by itself: settings of the allocator, gradients
/// cleared to None, a fused optimizer, a loss in chunks, the best plan, half the batch with gradients accumulated,
/// autocast and bfloat16, an 8-bit optimizer, sharding over 2, 4 and 8 GPUs (perRank(), without gathered parameters),
/// and the smallest larger cards. Half the batch, autocast and bfloat16 are there only if `record` records them, since
/// other kernels run then; the other changes are calculated from the step. `step` has times on the card's GPU.
/// `planned`: the answer of planForCard() for the step on the card; null: the step is planned here. Error (badInput):
/// as StepPlanner::create().
Result<Changes> changesThatHelp(const StepTracePtr& step, const Card& card, const RecordVariant& record = {},
                                const std::stop_token& stop = {}, PlanAnswerPtr planned = {});

/// The document of `torch-headroom fit --changes --json`.
nlohmann::ordered_json toJson(const Changes& changes);

} // namespace headroom
