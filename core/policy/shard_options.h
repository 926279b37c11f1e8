// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/policy/step_planner.h"
#include "core/predict/step_clock.h"

#include <optional>
#include <string>
#include <vector>

namespace headroom {

/// How a model is laid over cards, by torchtitan's words.
struct ShardOption
{
    int replicate = 1; ///< data_parallel_replicate_degree: HSDP where it is above 1
    int shard = 1; ///< data_parallel_shard_degree: FSDP
    int tensor = 1; ///< tensor_parallel_degree
    bool reshard = true; ///< reshard_after_forward
    std::int64_t batch = 0; ///< local_batch_size; 0: as the script has it

    int dataRanks() const noexcept { return replicate * shard; }

    friend bool operator==(const ShardOption&, const ShardOption&) = default;
};

/// What may vary; an empty list: one value, the default.
struct ShardChoices
{
    int cards = 1;
    int perNode = 8;
    std::vector<int> replicate, tensor;
    std::vector<bool> reshard;
    std::vector<std::int64_t> batch;
};

/// Every option that uses all cards: tensor parallelism stays inside of a node, and what neither replicates nor splits
/// tensors shards. One rank a shard has nothing to reshard: `reshard` does not vary there. Errors (badInput): a degree
/// that does not divide the cards, or none that fits.
Result<std::vector<ShardOption>> shardOptions(const ShardChoices& choices);

/// `{replicate}`, `{shard}`, `{tp}`, `{reshard}` and `{batch}` in the text are the option's; reshard is always or
/// never.
std::string filledIn(std::string text, const ShardOption& option);

/// One line of the table: what an option takes, and how fast it is.
struct ShardRow
{
    ShardOption option;
    int unknownMesh
        = 0; ///< ranks of a job that was recorded already, whose option its file does not say; 0: it is known
    std::string step; ///< the file that says so
    std::string failure; ///< why there is none
    Bytes peak = 0; ///< under the plan, where there is one
    Bytes usable = 0; ///< what the card gives to PyTorch
    bool fits = false;
    std::optional<PlannedStep> plan; ///< what has to be recomputed, where the step does not fit without
    double stepMs = 0;
    double exposedMs = 0;
    double samplesPerSecond = 0; ///< of the whole job; 0: the batch is not known
    bool calculated = false; ///< from the step of one card: what one rank holds, without gathers and collectives

    bool faster(const ShardRow& other) const noexcept;
};

/// Errors (badInput): the step's card is not known; otherwise as StepPlanner and clockOf(). `worldSize` above 1
/// calculates full sharding of a step that was recorded on one card.
Result<ShardRow> shardRow(const StepTracePtr& step, const ShardOption& option, int worldSize = 1);

/// What fits before what does not, the fastest first.
void sortRows(std::vector<ShardRow>& rows);

/// The option as torchtitan's configuration, checkpointing of its plan included; a plan that torchtitan cannot express
/// is a comment that says so.
std::string torchtitanConfig(const StepTracePtr& step, const ShardRow& row);

} // namespace headroom
