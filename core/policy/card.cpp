// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/policy/card.h"

#include "core/base/try.h"
#include "core/cost/card_memory.h"
#include "core/cost/workspaces.h"

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
    if (const Result<DeviceSpec> gpu = findDeviceSpec(text))
        return cardFor(*gpu, step, chosen);
    const Result<Bytes> capacity = parseBytes(text);
    if (!capacity || *capacity < 1)
        return badInput(
            "card `" + std::string(text)
            + "`: expected a size, such as 21GiB, or the name of a GPU, as torch-headroom record --gpu list "
              "prints them");
    Card card;
    card.title = formatBytes(*capacity);
    card.rules.capacity = *capacity;
    ASSIGN_OR_RETURN(card.rules, withAllocatorSettings(card.rules, chosen));
    return card;
}

namespace {

CardRun answerOf(const Card& card, const StepTrace& step, const AllocatorRun& run)
{
    CardRun result;
    result.runs = !run.failure;
    result.reservedPeak = run.stats.reservedPeak;
    result.left = std::max<Bytes>(std::min(card.rules.capacity, card.rules.limit()) - run.stats.reservedPeak, 0);
    result.retries = run.stats.retries;
    if (run.failure) {
        result.failedStep = run.step;
        result.reason = outOfMemorySentence(step, *run.failure);
        result.failure = run.failure;
    }
    return result;
}

/// The card if no block of its allocator is a workspace: libraries take as many bytes from elsewhere.
Card withoutWorkspaces(Card card)
{
    if (card.rules.capacity > 0)
        card.rules.capacity = std::max<Bytes>(card.rules.capacity - card.workspaces.keptBytes(), 1);
    card.workspaces = {};
    return card;
}

} // namespace

nlohmann::ordered_json cardRunJson(const Card& card, const StepTrace& step, const CardRun& run)
{
    nlohmann::ordered_json json;
    json["name"] = card.name;
    json["capacity_bytes"] = card.rules.capacity;
    json["settings"] = allocatorSettings(card.rules);
    json["runs"] = run.runs;
    json["reserved_peak_bytes"] = run.reservedPeak;
    json["left_bytes"] = run.left;
    json["retries"] = run.retries;
    json["reason"] = run.reason;
    if (run.failure) {
        json["failed_step"] = run.failedStep;
        json["out_of_memory"] = outOfMemoryJson(step, *run.failure);
    }
    return json;
}

Bytes Card::forTensors() const noexcept
{
    return std::max<Bytes>(std::min(rules.capacity, rules.limit()) - workspaces.keptBytes(), 1);
}

CardRun runOnCard(const Card& card, const StepTrace& step, const Timeline& timeline)
{
    CardRun result = answerOf(card, step, simulateAllocator(step, timeline, card.rules, card.workspaces));
    if (!result.runs || card.workspaces.kept.empty())
        return result;
    const Card other = withoutWorkspaces(card);
    const AllocatorRun run = simulateAllocator(step, timeline, other.rules, other.workspaces);
    return run.failure ? answerOf(other, step, run) : result;
}

Bytes leastMemory(Card card, const StepTrace& step, const Timeline& timeline)
{
    constexpr Bytes precision = 2 * MiB;
    const bool isShare = card.rules.memoryFraction > 0 && card.rules.total > 0;
    const auto total = static_cast<double>(card.rules.total);
    const Bytes given = std::min(card.rules.capacity, card.rules.limit());
    const bool runsThere = given > 0 && runOnCard(card, step, timeline).runs;
    card.rules.capacity = 0;
    card.rules.memoryFraction = 0;
    const AllocatorRun free = simulateAllocator(step, timeline, card.rules, card.workspaces);
    Bytes enough = free.stats.reservedPeak;
    if (!card.workspaces.kept.empty())
        enough = std::max(
            enough, simulateAllocator(step, timeline, card.rules).stats.reservedPeak + card.workspaces.keptBytes());
    if (runsThere) // not every capacity above the least one that is found need do
        enough = std::min(enough, given);
    Bytes tooLittle = free.stats.activePeak - 1;
    while (enough - tooLittle > precision) {
        const Bytes middle = tooLittle + (enough - tooLittle) / 2;
        if (isShare)
            card.rules.memoryFraction = static_cast<double>(middle) / total;
        else
            card.rules.capacity = middle;
        (runOnCard(card, step, timeline).runs ? enough : tooLittle) = middle;
    }
    return enough;
}

} // namespace headroom
