// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/policy/shard_options.h"

#include "core/base/try.h"
#include "core/policy/card_planner.h"
#include "core/policy/trainer_plan.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

namespace headroom {

namespace {

/// Live bytes of one step by category, whole and per rank.
class RankMemory
{
public:
    RankMemory(const CategoryBytes& start, int worldSize)
        : whole_(start)
        , worldSize_(worldSize)
    {
        for (std::size_t category = 0; category < categoryCount; ++category)
            rank_[category] = share(category, start[category]);
    }

    /// Applies a change of the whole and returns the change on the rank.
    Bytes change(Category changed, Bytes delta)
    {
        const auto category = static_cast<std::size_t>(changed);
        whole_[category] += delta;
        const Bytes before = rank_[category];
        rank_[category] = share(category, whole_[category]);
        return rank_[category] - before;
    }

    const CategoryBytes& rank() const { return rank_; }
    Bytes share(std::size_t category, Bytes bytes) const
    {
        const auto kind = static_cast<Category>(category);
        const bool sharded = kind == Category::parameter || kind == Category::gradient || kind == Category::optimizer;
        return sharded ? (bytes + worldSize_ - 1) / worldSize_ : bytes;
    }

private:
    CategoryBytes whole_;
    CategoryBytes rank_{};
    int worldSize_;
};

} // namespace

Timeline perRank(Timeline timeline, int worldSize)
{
    if (worldSize == 1)
        return timeline;
    Timeline sharded = std::move(timeline);
    RankMemory memory(sharded.start, worldSize);
    sharded.start = memory.rank();
    sharded.peak = total(sharded.start);
    sharded.peakChange = Timeline::npos;
    sharded.atPeak = sharded.start;
    Bytes live = sharded.peak;
    for (std::size_t i = 0; i < sharded.changes.size(); ++i) {
        MemoryChange& change = sharded.changes[i];
        change.delta = memory.change(change.category, change.delta);
        live += change.delta;
        if (live > sharded.peak) {
            sharded.peak = live;
            sharded.peakChange = i;
            sharded.atPeak = memory.rank();
        }
    }
    for (Timeline::Snapshot& snapshot : sharded.snapshots)
        for (std::size_t category = 0; category < categoryCount; ++category)
            snapshot.bytes[category] = memory.share(category, snapshot.bytes[category]);
    return sharded;
}

namespace {

template <class T>
std::vector<T> orDefault(const std::vector<T>& values, T otherwise)
{
    return values.empty() ? std::vector<T>{otherwise} : values;
}

Status checkDegrees(const std::vector<int>& degrees, const char* name, int cards)
{
    for (const int degree : degrees)
        if (degree < 1 || cards % degree != 0)
            return badInput(std::string(name) + " " + std::to_string(degree) + " does not divide "
                            + std::to_string(cards) + " cards: expected a divisor");
    return {};
}

/// Error if no option has one of the degrees.
Status checkUsed(const std::vector<int>& degrees, const char* name, int ShardOption::*degree,
                 const std::vector<ShardOption>& options, const ShardChoices& choices)
{
    for (const int own : degrees)
        if (std::ranges::find(options, own, degree) == options.end())
            return badInput("no mesh of " + std::to_string(choices.cards) + " cards with "
                            + std::to_string(choices.perNode) + " a node has " + name + " " + std::to_string(own)
                            + ": name other degrees with --tp and --replicate");
    return {};
}

std::string reshardName(bool reshard)
{
    return reshard ? "always" : "never";
}

} // namespace

Result<std::vector<ShardOption>> shardOptions(const ShardChoices& choices)
{
    RETURN_IF_ERROR(checkDegrees(choices.tensor, "--tp", choices.cards));
    RETURN_IF_ERROR(checkDegrees(choices.replicate, "--replicate", choices.cards));
    const int perNode = std::min(choices.perNode, choices.cards);
    if (choices.cards % perNode != 0)
        return badInput(std::to_string(choices.cards) + " cards do not fill nodes of " + std::to_string(perNode)
                        + ": expected a multiple, or another --gpus-per-node");
    std::vector<ShardOption> options;
    for (const int tensor : orDefault(choices.tensor, 1))
        for (const int replicate : orDefault(choices.replicate, 1)) {
            if (perNode % tensor != 0 || choices.cards / tensor % replicate != 0)
                continue;
            const int shard = choices.cards / (tensor * replicate);
            for (const bool reshard : orDefault(choices.reshard, true)) {
                if (shard == 1 && !reshard && choices.reshard.size() > 1)
                    continue;
                for (const std::int64_t batch : orDefault<std::int64_t>(choices.batch, 0))
                    options.push_back({replicate, shard, tensor, reshard, batch});
            }
        }
    RETURN_IF_ERROR(checkUsed(choices.tensor, "--tp", &ShardOption::tensor, options, choices));
    RETURN_IF_ERROR(checkUsed(choices.replicate, "--replicate", &ShardOption::replicate, options, choices));
    return options;
}

std::string filledIn(std::string text, const ShardOption& option)
{
    const auto values = std::to_array<std::pair<std::string_view, std::string>>({
        {"{replicate}", std::to_string(option.replicate)},
        {"{shard}", std::to_string(option.shard)},
        {"{tp}", std::to_string(option.tensor)},
        {"{reshard}", reshardName(option.reshard)},
        {"{batch}", std::to_string(option.batch)},
    });
    for (const auto& [name, value] : values)
        for (std::size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + value.size()))
            text.replace(at, name.size(), value);
    return text;
}

bool ShardRow::faster(const ShardRow& other) const noexcept
{
    // Rows without a known batch size have no rate and come last, so that the order is a strict weak one.
    return std::tuple(-samplesPerSecond, stepMs) < std::tuple(-other.samplesPerSecond, other.stepMs);
}

Result<ShardRow> shardRow(const StepTracePtr& step, const ShardOption& option, int worldSize, std::optional<Card> card)
{
    if (!card) {
        ASSIGN_OR_RETURN(const DeviceSpec gpu, findDeviceSpec(step->info.gpu));
        const std::string settings = recordedAllocatorSettings(step->info);
        const bool areKnown = withAllocatorSettings({}, settings).ok();
        ASSIGN_OR_RETURN(card, cardFor(gpu, *step, areKnown ? settings : std::string()));
    }
    ASSIGN_OR_RETURN(const StepPlanner planner, StepPlanner::create(step));
    ShardRow row;
    row.option = option;
    row.calculated = worldSize > 1;
    row.usable = card->forTensors();
    PlanRequest request;
    request.budget = row.usable;
    request.worldSize = worldSize;
    // Blocks of one rank are not known, only their sum.
    ASSIGN_OR_RETURN(PlanAnswer planned,
                     row.calculated ? planner.solve(request)
                                    : planForCard(planner, request, std::make_shared<const Card>(*card)));
    row.fits = planned.plan.status != PlanStatus::infeasible;
    if (planned.card) {
        row.fits = planned.runs();
        row.reserved = planned.card->run.reservedPeak;
        row.assumptions = planned.card->run.assumptions;
        if (planned.plan.leastBudget <= row.usable)
            row.shortage = planned.card->run.reason;
    }
    row.peak = planned.plan.status != PlanStatus::infeasible ? planned.plan.peak : planned.plan.leastBudget;
    ASSIGN_OR_RETURN(const StepClock clock, clockOf(*step, planner.model().index(), planned.regions));
    row.stepMs = clock.stepMs;
    row.exposedMs = clock.exposedMs;
    if (const std::int64_t batch = option.batch > 0 ? option.batch : step->info.batch; batch > 0)
        row.samplesPerSecond = static_cast<double>(batch) * option.dataRanks() / clock.stepMs * 1e3;
    if (row.fits && !planned.plan.decisions.empty())
        row.plan = std::move(planned);
    return row;
}

void sortRows(std::vector<ShardRow>& rows)
{
    std::ranges::stable_sort(rows, [](const ShardRow& a, const ShardRow& b) {
        const auto rank = [](const ShardRow& row) { return !row.failure.empty() ? 2 : row.fits ? 0 : 1; };
        return rank(a) != rank(b) ? rank(a) < rank(b) : rank(a) == 0 && a.faster(b);
    });
}

std::string torchtitanConfig(const StepTracePtr& step, const ShardRow& row)
{
    const ShardOption& option = row.option;
    std::string text;
    if (option.batch > 0)
        text += "[training]\nlocal_batch_size = " + std::to_string(option.batch) + "\n\n";
    text += "[parallelism]\ndata_parallel_replicate_degree = " + std::to_string(option.replicate)
        + "\ndata_parallel_shard_degree = " + std::to_string(option.shard) + "\ntensor_parallel_degree = "
        + std::to_string(option.tensor) + "\nfsdp_reshard_after_forward = \"" + reshardName(option.reshard) + "\"\n\n";
    if (!row.plan)
        return text;
    PlanRequest request = row.plan->request; // of as many ranks
    request.budget = row.plan->plan.budget;
    const Result<PlanAnswer> planned = planForTrainer(step, Trainer::torchtitan, request);
    const Result<std::string> config = !planned ? planned.error()
        : planned->plan.status == PlanStatus::infeasible
        ? Result<std::string>(badInput(planned->plan.reason))
        : trainerConfig(*step, planned->policy(step), Trainer::torchtitan);
    return text + (config ? *config : "# checkpointing: " + config.error().message + "\n");
}

} // namespace headroom
