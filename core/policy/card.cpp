// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/policy/card.h"

#include "core/base/try.h"
#include "core/cost/card_memory.h"
#include "core/cost/device_specs.h"
#include "core/plan/plan.h"
#include "core/trace/earlier_steps.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace headroom {

Result<Card> cardFor(const DeviceSpec& gpu, const StepTrace& step, std::string_view settings)
{
    Card card;
    card.name = gpu.name;
    card.title = gpu.title;
    card.rules.capacity = cardMemory(gpu, step).allocators();
    card.rules.total = gpu.memory;
    card.workspaces = workspacesOf(step, gpu);
    ASSIGN_OR_RETURN(card.rules, withAllocatorSettings(card.rules, settings));
    return card;
}

Result<Card> cardFor(std::string_view text, const StepTrace& step, const std::optional<std::string>& settings)
{
    const std::string chosen = settings.value_or(recordedAllocatorSettings(step.info));
    const Result<DeviceSpec> gpu = findDeviceSpec(gpuName(text));
    if (gpu)
        return cardFor(*gpu, step, chosen);
    const Result<Bytes> capacity = parseBytes(text);
    if (!capacity || *capacity < 1)
        return badInput("card `" + std::string(text) + "`: expected a size, such as 21GiB, or a GPU; "
                        + gpu.error().message);
    Card card;
    card.title = formatBytes(*capacity);
    card.rules.capacity = *capacity;
    ASSIGN_OR_RETURN(card.rules, withAllocatorSettings(card.rules, chosen));
    return card;
}

namespace {

constexpr double nsPerChange = 160; ///< work of a change of the timeline that the allocator replays

CardRun answerOf(const StepTrace& step, const AllocatorRun& run)
{
    CardRun result;
    result.runs = !run.failure;
    result.reservedPeak = result.reservedWithoutWorkspaces = run.stats.reservedPeak;
    result.retries = run.stats.retries;
    result.repeats = run.repeats || run.step == 1;
    result.wasFull = run.wasFull;
    if (run.failure) {
        result.failedStep = run.step;
        result.reason = outOfMemorySentence(step, *run.failure);
        result.failure = run.failure;
    }
    return result;
}

/// sizesOfSteps() of a program with steps of different sizes.
std::vector<double> sizesOf(const EarlierSteps& earlier)
{
    const auto own = static_cast<double>(std::max<Bytes>(earlier.own, 1));
    const double most = std::max(static_cast<double>(earlier.most) / own, 1.0);
    const double least = std::min(static_cast<double>(earlier.least) / own, 1.0);
    const double larger = earlier.mayGrow ? most + (most - least) : most;
    return {least, 1.0, larger, (1 + least) / 2, (1 + larger) / 2};
}

/// A capacity with less memory; an unlimited capacity stays unlimited.
Bytes lessOf(Bytes capacity, Bytes bytes)
{
    return capacity > 0 ? std::max<Bytes>(capacity - bytes, 1) : 0;
}

/// The card with less memory for the allocator.
Card withLess(Card card, Bytes bytes)
{
    card.rules.capacity = lessOf(card.rules.capacity, bytes);
    if (card.rules.memoryFraction > 0 && card.rules.total > 0)
        card.rules.memoryFraction = std::max(
            card.rules.memoryFraction - static_cast<double>(bytes) / static_cast<double>(card.rules.total), 1e-9);
    return card;
}

/// The card if no block of its allocator is a workspace. `elsewhere`: bytes that libraries take beside the allocator.
Card withoutWorkspaces(const Card& card, Bytes elsewhere)
{
    Card other = withLess(card, elsewhere);
    other.workspaces = {};
    return other;
}

/// Runs steps of `sizes` in turn: with workspaces among the blocks, with as many bytes taken elsewhere, and, where the
/// figures may differ, without any.
CardRun runWithSizes(const Card& card, const StepTrace& step, const Timeline& timeline, const std::stop_token& stop,
                     const std::vector<double>& sizes)
{
    const auto simulated = [&](const Card& on) {
        AllocatorRun run = simulateAllocator(step, timeline, on.rules, on.workspaces, stop, sizes);
        SearchLimit::count(static_cast<double>(timeline.changes.size()) * run.step, nsPerChange);
        return run;
    };
    CardRun result = answerOf(step, simulated(card));
    if (!result.runs || !card.workspaces.any())
        return result;
    const AllocatorRun elsewhere = simulated(withoutWorkspaces(card, card.workspaces.keptBytes()));
    CardRun without = answerOf(step, elsewhere);
    result.repeats = result.repeats && without.repeats;
    result.wasFull = result.wasFull || without.wasFull;
    const bool memoryMatters = elsewhere.wasFull || card.rules.collectsGarbage();
    if (without.runs && memoryMatters && card.workspaces.keptBytes() > 0) {
        without = answerOf(step, simulated(withoutWorkspaces(card, 0)));
        result.repeats = result.repeats && without.repeats;
    }
    if (!without.runs)
        return without;
    result.reservedWithoutWorkspaces = without.reservedPeak;
    return result;
}

/// The assumptions of `run`. `earlier` is otherEarlierSteps(step).
std::vector<std::string> assumptions(const Card& card, const StepTrace& step,
                                     const std::optional<EarlierSteps>& earlier, const CardRun& run)
{
    std::vector<std::string> sentences;
    std::string sizesDiffer;
    if (earlier) {
        const auto own = static_cast<double>(earlier->own);
        const auto saved = [&](double size) { return formatBytes(static_cast<Bytes>(size * own)); };
        const std::vector<double> sizes = sizesOf(*earlier);
        sizesDiffer = "the program's steps differ in size: autograd saves " + formatBytes(earlier->own)
            + " in the recorded step, and " + formatBytes(earlier->least)
            + (earlier->most > earlier->least ? " to " + formatBytes(earlier->most) : std::string())
            + " in earlier steps; the answer holds for steps that save " + saved(sizes[0]) + " to " + saved(sizes[2])
            + (earlier->mayGrow ? " in turn, and a larger step may run out of memory" : " in turn");
    }
    if (const std::string_view larger = step.info.setting(largerBatchSetting); !larger.empty())
        sizesDiffer.append(sizesDiffer.empty() ? "" : "; ").append(larger);
    if (!sizesDiffer.empty())
        sentences.push_back(std::move(sizesDiffer));
    if (const auto leftOut = leftOutModules(step))
        sentences.push_back(leftOutText(*leftOut) + ": a step that runs all modules may run out of memory");
    if (const std::string_view evaluation = step.info.setting(evaluationSetting); !evaluation.empty())
        sentences.push_back(
            std::string(evaluation)
            + ": what a longer evaluation keeps on the GPU, such as the outputs of all batches, comes on "
              "top");
    if (const Bytes most = forwardsOutside(step); most > 0)
        sentences.push_back("the program ran forward passes that are no training step and took " + formatBytes(most)
                            + " at most: a plan changes the places of the passes' blocks, so that the answer is an "
                              "estimate; --margin leaves memory free");
    if (const Bytes most = card.workspaces.mostDuringAnOp(); most > 0)
        sentences.push_back("cuDNN's workspaces are an estimate, " + formatBytes(most)
                            + " at most: cuDNN chooses algorithms on the card");
    if (card.name.empty())
        sentences.push_back("the size is memory for tensors, fragmentation included: memory of cuBLAS and cuDNN in the "
                            "allocator comes on top, and scratch memory of kernels");
    if (run.runs && !run.repeats)
        sentences.push_back(run.wasFull
                                ? "the memory is so tight that segments go back and are taken anew, and the layout "
                                  "of segments did not repeat within the replayed steps: a later step may run out "
                                  "of memory"
                                : "the layout of segments did not repeat within the replayed steps: a later step "
                                  "may reserve more");
    return sentences;
}

} // namespace

void noteCard(Policy& policy, const Card& card, const CardRun& run, Bytes leastMemory,
              const std::optional<std::string>& chosenSettings)
{
    policy.allocatorSettings = chosenSettings.value_or("");
    policy.card
        = Policy::OnCard{card.name, card.given(), run.runs, run.reservedPeak, run.left, leastMemory, run.assumptions};
}

nlohmann::ordered_json cardRunJson(const Card& card, const StepTrace& step, const CardRun& run)
{
    nlohmann::ordered_json json;
    json["name"] = card.name;
    json["capacity_bytes"] = card.rules.capacity;
    json["settings"] = allocatorSettings(card.rules);
    json["runs"] = run.runs;
    json["reserved_peak_bytes"] = run.reservedPeak;
    json["reserved_peak_without_workspaces_bytes"] = run.reservedWithoutWorkspaces;
    json["left_bytes"] = run.left;
    json["margin_bytes"] = card.margin;
    json["steps_differ"] = otherEarlierSteps(step).has_value() || leftOutModules(step).has_value()
        || !step.info.setting(largerBatchSetting).empty();
    json["assumptions"] = run.assumptions;
    json["retries"] = run.retries;
    json["reason"] = run.reason;
    if (run.failure) {
        json["failed_step"] = run.failedStep;
        json["out_of_memory"] = outOfMemoryJson(step, *run.failure);
    }
    return json;
}

Bytes Card::given() const noexcept
{
    return std::max<Bytes>(std::min(rules.capacity, rules.limit()) - margin, 1);
}

Bytes Card::forTensors() const noexcept
{
    return std::max<Bytes>(given() - workspaces.keptBytes(), 1);
}

std::vector<double> sizesOfSteps(const StepTrace& step)
{
    const std::optional<EarlierSteps> earlier = otherEarlierSteps(step);
    return earlier ? sizesOf(*earlier) : std::vector<double>();
}

CardRun runOnCard(const Card& card, const StepTrace& step, const Timeline& timeline, const std::stop_token& stop)
{
    const Card usable = withLess(card, card.margin);
    const std::optional<EarlierSteps> earlier = otherEarlierSteps(step);
    CardRun result = runWithSizes(usable, step, timeline, stop, {});
    if (result.runs && earlier) {
        CardRun other = runWithSizes(usable, step, timeline, stop, sizesOf(*earlier));
        other.reservedPeak = std::max(other.reservedPeak, result.reservedPeak);
        other.reservedWithoutWorkspaces = std::max(other.reservedWithoutWorkspaces, result.reservedWithoutWorkspaces);
        other.repeats = result.repeats; // steps of several sizes end after some turns
        result = std::move(other);
        if (!result.runs)
            result.reason += ", with steps of other sizes in turn, as the program has";
    }
    result.left = std::max<Bytes>(std::min(card.rules.capacity, card.rules.limit()) - result.reservedPeak, 0);
    result.assumptions = assumptions(card, step, earlier, result);
    return result;
}

Bytes leastMemory(Card card, const StepTrace& step, const Timeline& timeline)
{
    constexpr Bytes precision = 2 * MiB;
    const SearchLimit limit = SearchLimit::after(10'000, {});
    const bool isShare = card.rules.memoryFraction > 0 && card.rules.total > 0;
    const auto total = static_cast<double>(card.rules.total);
    const Bytes given = std::min(card.rules.capacity, card.rules.limit());
    const bool runsThere = given > 0 && runOnCard(card, step, timeline).runs;
    card.rules.capacity = 0;
    card.rules.memoryFraction = 0;
    const CardRun free = runOnCard(card, step, timeline);
    Bytes enough
        = card.margin + std::max(free.reservedPeak, free.reservedWithoutWorkspaces + card.workspaces.keptBytes());
    if (runsThere) // some capacity above the found least may be too small
        enough = std::min(enough, given);
    Bytes tooLittle = card.margin + timeline.peak - 1;
    while (enough - tooLittle > precision && !limit.reached()) {
        const Bytes middle = tooLittle + (enough - tooLittle) / 2;
        if (isShare)
            card.rules.memoryFraction = static_cast<double>(middle) / total;
        else
            card.rules.capacity = middle;
        (runOnCard(card, step, timeline).runs ? enough : tooLittle) = middle;
    }
    return enough;
}

namespace {

/// Takes the peaks that the file of a real device has in place of the replay's peaks.
void takeMeasured(const StepTrace& trace, OwnAllocator& own)
{
    Bytes reserved = 0;
    for (const Bytes bytes : trace.reserved.bytes)
        reserved = std::max(reserved, bytes);
    if (const auto& step = trace.info.measured) {
        reserved = std::max(reserved, step->reservedPeak);
        if (step->activePeak > 0) {
            own.stats.activePeak = step->activePeak;
            own.activeMeasured = true;
        }
        if (step->allocatedPeak > 0)
            own.stats.allocatedPeak = step->allocatedPeak;
    }
    if (reserved > 0) {
        own.stats.reservedPeak = reserved;
        own.reservedMeasured = true;
    }
}

} // namespace

OwnAllocator ownAllocator(const StepTrace& trace, const Timeline& timeline)
{
    OwnAllocator own;
    own.settings = recordedAllocatorSettings(trace.info);
    if (const Result<AllocatorRules> rules = withAllocatorSettings({}, own.settings))
        own.rules = *rules;
    else
        own.leftOut = rules.error().message;
    own.stats = simulateAllocator(trace, timeline, own.rules).stats;
    if (!trace.info.simulated)
        takeMeasured(trace, own);
    return own;
}

std::optional<Card> recordedCard(const StepTrace& trace)
{
    const Result<DeviceSpec> gpu = findDeviceSpec(trace.info.gpu);
    const Result<Card> card = gpu ? cardFor(*gpu, trace, recordedAllocatorSettings(trace.info)) : gpu.error();
    return card ? std::optional(*card) : std::nullopt;
}

} // namespace headroom
