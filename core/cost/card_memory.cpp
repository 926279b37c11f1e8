// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cost/card_memory.h"

#include "core/cost/workspaces.h"

#include <charconv>
#include <string_view>

namespace headroom {
namespace {

Bytes contextOf(const DeviceSpec& card)
{
    return card.context > 0 ? card.context : estimatedContext(card.multiprocessors);
}

/// A number of StepInfo::settings; 0: the text is none.
Bytes numberOf(std::string_view text)
{
    Bytes value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
}

} // namespace

Bytes estimatedContext(int multiprocessors) noexcept
{
    return (80 + 3 * Bytes{multiprocessors}) * MiB;
}

CardMemory cardMemory(const DeviceSpec& card)
{
    const BlasWorkspaces own = ownBlasWorkspaces(card);
    return {card.memory, contextOf(card), 2 * own.blas + own.blasLt};
}

CardMemory cardMemory(const DeviceSpec& card, const StepTrace& step)
{
    return {card.memory, contextOf(card), workspacesOf(step, card).keptBytes(),
            ncclMemory(step, topologyOf(card.name))};
}

std::string ncclText(const NcclMemory& nccl)
{
    if (nccl.communicators == 0)
        return {};
    return "NCCL's buffers (estimated, " + formatBytes(nccl.bytes) + " for " + std::to_string(nccl.communicators)
        + (nccl.communicators == 1 ? " communicator)" : " communicators)");
}

std::string whyOutOfMemory(const StepTrace& step, const OutOfMemory& event)
{
    std::string text = whyOutOfMemory(event);
    const Result<DeviceSpec> card = findDeviceSpec(step.info.gpu);
    NcclMemory held = card ? ncclMemory(step, topologyOf(card->name)) : NcclMemory();
    if (const std::string_view recorded = step.info.setting("communicators"); !recorded.empty())
        held = {static_cast<int>(numberOf(recorded)), numberOf(step.info.setting("communicator bytes"))};
    const std::string nccl = ncclText(held);
    return nccl.empty() ? text : text + " The card also holds " + nccl + ", outside of PyTorch's memory.";
}

} // namespace headroom
