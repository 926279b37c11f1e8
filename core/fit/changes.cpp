// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/fit/changes.h"

#include "core/base/try.h"
#include "core/cost/time_model.h"
#include "core/fit/changed_step.h"
#include "core/fit/fit_row.h"
#include "core/policy/card_planner.h"
#include "core/policy/shard_options.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <tuple>

namespace headroom {
namespace {

constexpr int lossChunks = 8;
constexpr std::size_t mostCards = 2; ///< larger cards that are listed
constexpr const char* expandable = "expandable_segments:True";

class Search
{
public:
    Search(StepTracePtr step, Card card, const RecordVariant& record, std::stop_token stop, PlanAnswerPtr planned)
        : step_(std::move(step))
        , card_(std::move(card))
        , record_(record)
        , stop_(std::move(stop))
        , planned_(std::move(planned))
        , model_(step_)
    {
        changes_.before.peak = model_.recorded()->peak;
        changes_.before.run = runOnCard(card_, *step_, *model_.recorded(), stop_);
        changes_.before.stepMs = stepMsOf(model_, {}, 0);
    }

    Result<Changes> run()
    {
        addSettings();
        addGradientsToNone();
        addCalculated(ChangeCost::nothing, "fused optimizer", "torch.optim.AdamW(…, fused=True)",
                      withFusedOptimizer(step_), "the optimizer makes no blocks besides optimizer state");
        addCalculated(ChangeCost::nothing, "loss in " + std::to_string(lossChunks) + " chunks",
                      "a fused linear cross entropy, such as Liger's, or torchtune's chunked loss",
                      withChunkedLoss(step_, lossChunks), "only a chunk of the logits is there at a time");
        RETURN_IF_ERROR(addPlan());
        addHalfBatch();
        addBFloat16();
        addCalculated(ChangeCost::numerics, "8-bit optimizer", "bitsandbytes.optim.AdamW8bit(…)",
                      withEightBitOptimizer(step_), "a byte of state an element, and 4 bytes for 256 elements");
        addShards();
        addCards();
        std::ranges::stable_sort(changes_.list, {},
                                 [](const Change& change) { return std::tuple(change.cost, change.addedMs); });
        return std::move(changes_);
    }

private:
    /// Adds a change if the step takes less, or runs where it did not.
    void add(Change change)
    {
        change.freed = changes_.before.peak - change.peak;
        const Unchanged& before = changes_.before;
        const bool reservesLess = change.run.reservedPeak < before.run.reservedPeak && before.run.runs;
        if (change.freed > 0 || reservesLess || (change.runs() && !before.run.runs))
            changes_.list.push_back(std::move(change));
    }

    /// Sets peak, run and time from a step with the change.
    void judge(Change& change, const StepTracePtr& changed, const Card& card) const
    {
        const StepModel model(changed);
        change.peak = model.recorded()->peak;
        change.run = runOnCard(card, *changed, *model.recorded(), stop_);
        change.stepMs = stepMsOf(model, {}, 0);
        change.addedMs = change.stepMs - changes_.before.stepMs;
    }

    void addCalculated(ChangeCost cost, std::string what, std::string how, const StepTracePtr& changed,
                       std::string rests)
    {
        if (!changed || stop_.stop_requested())
            return;
        Change change;
        change.cost = cost;
        change.what = std::move(what);
        change.how = std::move(how);
        change.rests = std::move(rests);
        judge(change, changed, card_);
        if (cost == ChangeCost::numerics)
            change.stepMs = change.addedMs = 0; // the kernels are others
        add(std::move(change));
    }

    /// Adds a change that `options` record. Returns whether there is such a recording.
    bool addRecorded(ChangeCost cost, const std::string& what, const std::string& how, std::vector<std::string> options)
    {
        if (!record_ || stop_.stop_requested())
            return false;
        Result<StepTracePtr> recorded = record_(options);
        if (!recorded)
            return false;
        Change change;
        change.cost = cost;
        change.what = what;
        change.how = how;
        change.options = std::move(options);
        change.isRecorded = true;
        judge(change, *recorded, card_);
        add(std::move(change));
        return true;
    }

    void addSettings()
    {
        Result<AllocatorRules> rules = withAllocatorSettings(card_.rules, expandable);
        if (!rules || card_.rules.expandableSegments)
            return;
        Card other = card_;
        other.rules = *std::move(rules);
        Change change;
        change.what = "expandable segments";
        change.how = std::string("PYTORCH_CUDA_ALLOC_CONF=") + expandable;
        judge(change, step_, other);
        change.peak = changes_.before.peak;
        add(std::move(change));
    }

    void addGradientsToNone()
    {
        const Bytes freed = gradientsKeptAtPeak(*step_, *model_.recorded());
        if (freed == 0)
            return;
        Change change;
        change.what = "gradients cleared to None";
        change.how = "optimizer.zero_grad(set_to_none=True)";
        change.rests
            = "gradients that backward has not written at the peak are not there; whether a step that ran out of "
              "memory runs then is known only from a recording";
        change.peak = changes_.before.peak - freed;
        change.stepMs = changes_.before.stepMs;
        // Where the blocks would lie is not known: a step that does not run is not said to run, since its reserved peak
        // is only that of the run up to the failure.
        change.run = changes_.before.run;
        change.run.reservedPeak -= freed;
        add(std::move(change));
    }

    Status addPlan()
    {
        if (stop_.stop_requested())
            return {};
        if (changes_.before.run.runs || !plannable(*step_))
            return {}; // the best plan recomputes nothing, or there is none
        if (!planned_) {
            ASSIGN_OR_RETURN(const StepPlanner planner, StepPlanner::create(step_));
            const auto card = std::make_shared<const Card>(card_);
            ASSIGN_OR_RETURN(PlanAnswer answer, planForCard(planner, {}, card, stop_, LeastMemory::left));
            planned_ = std::make_shared<const PlanAnswer>(std::move(answer));
        }
        const PlanAnswer& answer = *planned_;
        Change change;
        change.cost = ChangeCost::time;
        change.what = "activation checkpointing, as planned";
        change.how = "torch-headroom plan --card NAME -o policy.json; torch_headroom.apply(model, \"policy.json\")";
        change.peak = answer.fits() ? answer.plan.peak : answer.plan.leastBudget;
        if (answer.card)
            change.run = answer.card->run;
        change.run.runs = answer.runs();
        change.stepMs = answer.fits() ? stepMsOf(model_, answer.regions, answer.plan.recomputeMs) : 0;
        change.addedMs = answer.fits() ? change.stepMs - changes_.before.stepMs : 0;
        if (answer.fits())
            change.plan = planned_;
        add(std::move(change));
        return {};
    }

    void addHalfBatch()
    {
        const std::int64_t batch = step_->info.batch;
        const auto& dimensions = step_->info.dimensions; // a script names none
        const auto dimension = std::ranges::find(dimensions, "batch", &StepInfo::Dimension::name);
        const bool isScript = !step_->info.setting("program").empty();
        if ((dimension == dimensions.end() && !isScript) || batch < 2 || batch % 2 != 0)
            return;
        if (dimension != dimensions.end() && batch / 2 < dimension->least)
            return;
        addRecorded(ChangeCost::time, "batch " + std::to_string(batch / 2) + ", gradients of two accumulated",
                    "two micro-batches before optimizer.step()",
                    {"--batch", std::to_string(batch / 2), "--accumulate", "2"});
    }

    void addBFloat16()
    {
        if (step_->info.autocast || step_->info.dtype != dtypeName(DType::float32))
            return;
        addRecorded(ChangeCost::numerics, "autocast in bfloat16", "torch.autocast(\"cuda\", dtype=torch.bfloat16)",
                    {"--autocast"});
        addRecorded(ChangeCost::numerics, "everything in bfloat16", "model.to(torch.bfloat16)",
                    {"--dtype", "bfloat16"});
    }

    void addShards()
    {
        if (step_->info.distributed)
            return;
        for (const int ranks : {2, 4, 8}) {
            const Timeline share = perRank(*model_.recorded(), ranks);
            Change change;
            change.cost = ChangeCost::hardware;
            change.what = "FSDP over " + std::to_string(ranks) + " GPUs, each with this batch";
            change.how = "torch.distributed.fsdp.fully_shard(model)";
            change.rests = "parameters, gradients and optimizer state are divided; gathered parameters, buffers of "
                           "collectives and time of collectives are left out";
            change.peak = share.peak;
            change.run = runOnCard(card_, *step_, share, stop_);
            const bool runs = change.run.runs;
            add(std::move(change));
            if (runs)
                return; // more GPUs are not needed
        }
    }

    void addCards()
    {
        if (card_.name.empty())
            return;
        const auto specs = deviceSpecs();
        std::vector<DeviceSpec> larger(specs.begin(), specs.end());
        const Result<DeviceSpec> own = findDeviceSpec(card_.name);
        std::erase_if(larger, [&](const DeviceSpec& gpu) { return !own || gpu.memory <= own->memory + GiB; });
        std::ranges::stable_sort(larger, {}, &DeviceSpec::memory);
        std::size_t found = 0;
        Bytes memory = 0;
        for (const DeviceSpec& gpu : larger) {
            if (found == mostCards || stop_.stop_requested())
                return;
            // One card of each size.
            if (gpu.memory < memory + GiB || !standsFor(*step_, gpu.name))
                continue;
            const Result<Card> card = cardFor(gpu, *step_, allocatorSettings(card_.rules));
            if (!card)
                continue;
            Change change;
            change.cost = ChangeCost::hardware;
            change.what = gpu.title;
            change.how = "another card";
            change.gpu = gpu.name;
            judge(
                change,
                withOpTimes(step_, opTimes(*step_, gpu, TimeModel::kernel), gpu.name, timeModelName(TimeModel::kernel)),
                *card);
            if (!change.runs())
                continue;
            memory = gpu.memory;
            ++found;
            if (!changes_.before.run.runs)
                add(std::move(change));
        }
    }

    StepTracePtr step_;
    Card card_;
    const RecordVariant& record_;
    std::stop_token stop_;
    PlanAnswerPtr planned_;
    StepModel model_;
    Changes changes_;
};

} // namespace

std::string_view changeCostName(ChangeCost cost)
{
    constexpr std::array<std::string_view, 4> names{"nothing", "time", "numerics", "hardware"};
    return names[static_cast<std::size_t>(cost)];
}

std::string_view changeSource(const Change& change)
{
    return change.isRecorded ? "recorded" : change.plan ? "planned" : "calculated";
}

Result<Changes> changesThatHelp(const StepTracePtr& step, const Card& card, const RecordVariant& record,
                                const std::stop_token& stop, PlanAnswerPtr planned)
{
    return Search(step, card, record, stop, std::move(planned)).run();
}

nlohmann::ordered_json toJson(const Changes& changes)
{
    using Json = nlohmann::ordered_json;
    Json document{{"peak_bytes", changes.before.peak},
                  {"reserved_peak_bytes", changes.before.run.reservedPeak},
                  {"runs", changes.before.run.runs},
                  {"step_ms", changes.before.stepMs},
                  {"changes", Json::array()}};
    for (const Change& change : changes.list)
        document["changes"].push_back({{"what", change.what},
                                       {"how", change.how},
                                       {"cost", changeCostName(change.cost)},
                                       {"peak_bytes", change.peak},
                                       {"freed_bytes", change.freed},
                                       {"reserved_peak_bytes", change.run.reservedPeak},
                                       {"runs", change.runs()},
                                       {"step_ms", change.stepMs > 0 ? Json(change.stepMs) : Json()},
                                       {"added_ms", change.stepMs > 0 ? Json(change.addedMs) : Json()},
                                       {"source", change.isRecorded ? "recorded" : "calculated"},
                                       {"rests_on", change.rests},
                                       {"gpu", change.gpu.empty() ? Json() : Json(change.gpu)},
                                       {"options", change.options}});
    return document;
}

} // namespace headroom
