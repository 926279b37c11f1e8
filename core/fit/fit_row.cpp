// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/fit/fit_row.h"

#include "core/base/try.h"
#include "core/fit/learned_step.h"
#include "core/policy/card_planner.h"
#include "core/predict/step_clock.h"
#include "core/trace/phase_times.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace headroom {
namespace {

constexpr std::int64_t recordedMicroBatches = 2;

/// The time of an optimizer step of `size`, in ms, under a plan that recomputes for `recomputeMs`. Of more
/// micro-batches than are recorded, each takes the share of forward and backward of one.
double optimizerStepMs(const StepModel& model, const CheckpointPlan& regions, double recomputeMs, const StepSize& size)
{
    const StepTrace& step = *model.trace();
    const double whole = stepMsOf(model, regions, recomputeMs);
    const std::int64_t more = size.accumulation - recordedSize(size).accumulation;
    const double kernels = std::accumulate(step.ops.ms.begin(), step.ops.ms.end(), 0.0) + recomputeMs;
    if (more == 0 || kernels <= 0)
        return whole;
    const double micro
        = whole * (forwardBackwardMs(step) + recomputeMs) / kernels / static_cast<double>(recordedMicroBatches);
    return whole + static_cast<double>(more) * micro;
}

void setRates(FitRun& run, const FitRow& row)
{
    if (run.stepMs <= 0)
        return;
    const auto samples = static_cast<double>(row.size.batch * row.size.accumulation * row.ownMicroBatches);
    run.samplesPerSecond = samples / run.stepMs * 1e3;
    run.tokensPerSecond = run.samplesPerSecond * static_cast<double>(row.size.sequence);
}

Bytes bytesOfOthers(const FitRequest& request, const DeviceSpec& gpu)
{
    return static_cast<Bytes>((1 - request.share) * static_cast<double>(gpu.memory)) + request.beside;
}

Status readPlain(const FitRequest& request, const DeviceSpec& gpu, FitRow& row, const std::stop_token& stop)
{
    const StepTrace& step = *row.step.step;
    ASSIGN_OR_RETURN(const Card card, cardOf(request, gpu.name, step));
    const StepModel model(row.step.step);
    row.plain.card = runOnCard(card, step, *model.recorded(), stop);
    row.plain.peak = model.recorded()->peak;
    row.plain.stepMs = optimizerStepMs(model, {}, 0, row.size);
    setRates(row.plain, row);
    return {};
}

/// Sets the row's plan and the run with the plan.
void setPlan(FitRow& row, const StepPlanner& planner, PlanAnswer answer)
{
    FitRun run;
    if (answer.card)
        run.card = answer.card->run;
    run.card.runs = answer.runs();
    run.peak = answer.fits() ? answer.plan.peak : answer.plan.leastBudget;
    if (run.card.reason.empty() && !run.runs())
        run.card.reason = answer.plan.reason;
    if (run.runs()) {
        run.recomputeMs = answer.plan.recomputeMs * static_cast<double>(row.size.accumulation)
            / static_cast<double>(recordedSize(row.size).accumulation);
        run.stepMs = optimizerStepMs(planner.model(), answer.regions, answer.plan.recomputeMs, row.size);
        setRates(run, row);
        row.plan = std::make_shared<const PlanAnswer>(std::move(answer));
    }
    row.planned = std::move(run);
}

Result<StepPlannerPtr> plannerOf(const FitRow& row)
{
    ASSIGN_OR_RETURN(StepPlanner planner, StepPlanner::create(row.step.step));
    return std::make_shared<const StepPlanner>(std::move(planner));
}

Status readPlan(const FitRequest& request, const DeviceSpec& gpu, FitRow& row, StepPlannerPtr planner,
                const std::stop_token& stop)
{
    ASSIGN_OR_RETURN(const Card card, cardOf(request, gpu.name, *row.step.step));
    if (!planner) {
        ASSIGN_OR_RETURN(planner, plannerOf(row));
    }
    ASSIGN_OR_RETURN(PlanAnswer answer,
                     planForCard(*planner, {}, std::make_shared<const Card>(card), stop, LeastMemory::left));
    setPlan(row, *planner, std::move(answer));
    return {};
}

} // namespace

std::int64_t microBatchesOf(const StepTrace& step)
{
    std::vector<std::vector<StringId>> passes(1); // names of the ops of each forward, from the first module on
    bool isInside = false;
    for (std::uint32_t at = 0; at < step.events.size(); ++at) {
        const EventIndex event(at);
        const OpId op(step.events.a[event]);
        if (step.events.kind[event] == EventKind::enter && !isInside) {
            passes.back().clear(); // ops that make the input: the first pass's may precede the step
            isInside = true;
        }
        if (step.events.kind[event] == EventKind::opBegin && step.ops.phase[op] == Phase::forward)
            passes.back().push_back(step.ops.name[op]);
        const bool ends = step.events.kind[event] == EventKind::mark
            && static_cast<Mark>(step.events.a[event]) == Mark::backwardEnd;
        if (ends && !passes.back().empty()) {
            passes.emplace_back();
            isInside = false;
        }
    }
    passes.pop_back(); // what follows the last backward
    const bool isEqual
        = !passes.empty() && std::ranges::all_of(passes, [&](const auto& pass) { return pass == passes.front(); });
    return isEqual ? static_cast<std::int64_t>(passes.size()) : 1;
}

bool hasSize(const StepTrace& step, std::int64_t size, bool isSequence)
{
    if (isSequence)
        return step.info.sequence == size;
    return step.info.batch == size || step.info.batch * microBatchesOf(step) == size;
}

Status checkSize(const StepTrace& step, std::int64_t size, bool isSequence)
{
    const std::int64_t own = isSequence ? step.info.sequence : step.info.batch;
    if (own <= 0 || own >= size || hasSize(step, size, isSequence))
        return {};
    return badInput("the recorded step has a " + std::string(isSequence ? "sequence" : "batch") + " of "
                    + std::to_string(own) + " and not of " + std::to_string(size)
                    + ", as where the data end: expected data for several steps of this size");
}

double stepMsOf(const StepModel& model, const CheckpointPlan& regions, double recomputeMs)
{
    const StepTrace& step = *model.trace();
    if (hasClock(step))
        if (const Result<StepClock> clock = clockOf(step, model.index(), regions))
            return clock->stepMs;
    return std::accumulate(step.ops.ms.begin(), step.ops.ms.end(), 0.0) + recomputeMs;
}

StepSize recordedSize(StepSize size)
{
    size.accumulation = std::min(size.accumulation, recordedMicroBatches);
    return size;
}

Status checkOthers(const FitRequest& request, const DeviceSpec& gpu, Bytes capacity)
{
    const Bytes others = bytesOfOthers(request, gpu);
    if (others >= capacity)
        return badInput("nothing is left of " + gpu.title + " beside " + formatBytes(others)
                        + " of other programs: expected less than " + formatBytes(capacity));
    return {};
}

Result<std::vector<DeviceSpec>> gpusOf(const FitRequest& request)
{
    if (request.gpus.empty())
        return badInput("the card is missing: name cards, such as rtx-4090-24gb,a100-80gb");
    std::vector<DeviceSpec> gpus;
    for (const std::string& name : request.gpus) {
        ASSIGN_OR_RETURN(const DeviceSpec gpu, findDeviceSpec(gpuName(name)));
        RETURN_IF_ERROR(checkOthers(request, gpu, gpu.memory));
        gpus.push_back(gpu);
    }
    if (request.settings)
        RETURN_IF_ERROR(withAllocatorSettings({}, *request.settings));
    return gpus;
}

Result<Card> cardOf(const FitRequest& request, const std::string& name, const StepTrace& step)
{
    ASSIGN_OR_RETURN(const DeviceSpec gpu, findDeviceSpec(name));
    const std::string settings = request.settings.value_or(recordedAllocatorSettings(step.info));
    ASSIGN_OR_RETURN(Card card, cardFor(gpu, step, settings));
    RETURN_IF_ERROR(checkOthers(request, gpu, card.rules.capacity));
    card.rules.capacity -= bytesOfOthers(request, gpu);
    return card;
}

FitRow rowWithoutPlan(const FitRequest& request, const DeviceSpec& gpu, FitRow row, const std::stop_token& stop)
{
    TimeChoice times = request.times;
    times.gpu = gpu.name;
    Result<TimedStep> timed = withTimes(std::move(row.step.step), times);
    if (!timed) {
        row.failure = timed.error().message;
        return row;
    }
    row.step.step = std::move(timed->step);
    const StepInfo& info = row.step.step->info;
    row.size.batch = row.size.batch > 0 ? row.size.batch : info.batch;
    row.size.sequence = row.size.sequence > 0 ? row.size.sequence : info.sequence;
    const std::int64_t microBatches = microBatchesOf(*row.step.step) / recordedSize(row.size).accumulation;
    // The size may be that of all micro-batches together.
    row.ownMicroBatches = info.batch * microBatches == row.size.batch ? 1 : microBatches;
    if (const Status read = readPlain(request, gpu, row, stop); !read)
        row.failure = read.error().message;
    return row;
}

std::optional<PlanRoom> roomForPlan(const FitRequest& request, const DeviceSpec& gpu, const FitRow& row,
                                    const std::stop_token& stop)
{
    const Result<Card> card = cardOf(request, gpu.name, *row.step.step);
    const Result<StepPlannerPtr> planner = plannerOf(row);
    if (!card || !planner)
        return std::nullopt;
    PlanRequest least;
    least.budget = 1; // the answer names the least budget
    const Result<PlanAnswer> answer = (*planner)->solve(least, stop);
    if (!answer || answer->plan.status == PlanStatus::stopped)
        return std::nullopt;
    return PlanRoom{card->forTensors() - answer->plan.leastBudget, *planner};
}

void addPlan(const FitRequest& request, const DeviceSpec& gpu, FitRow& row, StepPlannerPtr planner,
             const std::stop_token& stop)
{
    if (const Status read = readPlan(request, gpu, row, std::move(planner), stop); !read)
        row.failure = read.error().message;
}

void tryPlanOf(const FitRequest& request, const DeviceSpec& gpu, const FitRow& other, FitRow& row,
               const std::stop_token& stop)
{
    const Result<Card> card = cardOf(request, gpu.name, *row.step.step);
    const Result<StepPlanner> planner = StepPlanner::create(row.step.step);
    if (!card || !planner || !sameStructure(*other.step.step, *row.step.step))
        return;
    PlanRequest wanted;
    wanted.budget = card->forTensors();
    Result<PlanAnswer> answer = planner->solve(wanted, stop);
    if (answer)
        answer = planner->withRegions(*std::move(answer), other.plan->regions);
    if (!answer || !answer->timeline)
        return;
    answer->card
        = CardVerdict{std::make_shared<const Card>(*card), runOnCard(*card, *row.step.step, *answer->timeline, stop)};
    answer->plan.status = PlanStatus::feasible;
    if (answer->runs())
        setPlan(row, *planner, *std::move(answer));
}

} // namespace headroom
