// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/policy/card.h"
#include "core/policy/step_planner.h"
#include "core/predict/step_clock.h"
#include "core/timeline/timeline.h"

#include <optional>
#include <string>
#include <vector>

namespace headroom {

/// The timeline of one of `worldSize` ranks if FSDP shards parameters, gradients and optimizer state evenly. As in
/// PyTorch's sac_milp, parameters that are gathered for a module's forward and backward are not counted. Each category
/// is divided as a whole and rounded up, so that no rank holds more.
Timeline perRank(Timeline timeline, int worldSize);

/// A parallel layout of a model over GPUs, in torchtitan's terms.
struct ShardOption
{
    int replicate = 1; ///< data_parallel_replicate_degree; above 1: HSDP
    int shard = 1; ///< data_parallel_shard_degree (FSDP)
    int tensor = 1; ///< tensor_parallel_degree
    bool reshard = true; ///< reshard_after_forward
    std::int64_t batch = 0; ///< local_batch_size; 0: the script's own

    int dataRanks() const noexcept { return replicate * shard; }

    friend bool operator==(const ShardOption&, const ShardOption&) = default;
};

/// The values to enumerate; an empty list: only the default value.
struct ShardChoices
{
    int cards = 1;
    int perNode = 8;
    std::vector<int> replicate, tensor;
    std::vector<bool> reshard;
    std::vector<std::int64_t> batch;
};

/// All options that use every GPU. Tensor parallelism stays inside a node; the shard degree is the number of GPUs
/// divided by the other degrees. `reshard` varies only for shard degrees above 1. Errors (badInput): a degree that does
/// not divide the number of GPUs; no option is left.
Result<std::vector<ShardOption>> shardOptions(const ShardChoices& choices);

/// Replaces `{replicate}`, `{shard}`, `{tp}`, `{reshard}` (always or never) and `{batch}` in the text by the option's
/// values.
std::string filledIn(std::string text, const ShardOption& option);

/// One row of the table: memory and speed of an option.
struct ShardRow
{
    ShardOption option;
    /// Number of ranks of a job that was recorded before, if its file does not name the option; 0: the option is known.
    int unknownMesh = 0;
    std::string step; ///< the step file that the row is computed from
    std::string failure; ///< why there is no step; empty: there is one
    Bytes peak = 0; ///< under `plan` if there is one; the least budget if no plan reaches `usable`
    Bytes usable = 0; ///< bytes of the GPU that PyTorch can use
    Bytes reserved = 0; ///< most bytes that the caching allocator reserves on this GPU, with cuBLAS's workspaces
    bool fits = false; ///< the caching allocator finds room for every block on this GPU
    std::vector<std::string> assumptions; ///< what `fits` rests on, as CardRun::assumptions
    std::string shortage; ///< where it finds none although a plan's peak is below `usable`; empty otherwise
    std::optional<PlanAnswer> plan; ///< if the step does not fit without recomputation
    double stepMs = 0;
    double exposedMs = 0;
    double samplesPerSecond = 0; ///< of the whole job; 0: the batch size is not known
    bool calculated = false; ///< derived from the step of one GPU, without gathered parameters and collectives

    bool faster(const ShardRow& other) const noexcept;
};

/// Computes the row of an option from its recorded step, with the plan for `card` (planForCard), by default the step's
/// GPU under the recorded settings. `worldSize` above 1 derives full sharding from a step that was recorded on one GPU;
/// such a row says "fits" by the sum of bytes.
/// Errors (badInput): the step's GPU is unknown; otherwise as StepPlanner and clockOf().
Result<ShardRow> shardRow(const StepTracePtr& step, const ShardOption& option, int worldSize = 1,
                          std::optional<Card> card = {});

/// Sorts rows that fit before those that do not, the fastest first.
void sortRows(std::vector<ShardRow>& rows);

/// The option as a torchtitan configuration (TOML), with the activation checkpointing of its plan. If torchtitan cannot
/// express the plan, a comment in the text says so.
std::string torchtitanConfig(const StepTracePtr& step, const ShardRow& row);

} // namespace headroom
