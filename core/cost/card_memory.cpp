// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cost/card_memory.h"

#include "core/cost/workspaces.h"

namespace headroom {
namespace {

Bytes contextOf(const DeviceSpec& card)
{
    return card.context > 0 ? card.context : estimatedContext(card.multiprocessors);
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

} // namespace headroom
