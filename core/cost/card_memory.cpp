// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cost/card_memory.h"

#include "core/base/json_reader.h"
#include "core/cost/devices_json.h"
#include "core/cost/workspaces.h"

#include <map>
#include <string>

namespace headroom {
namespace {

Bytes contextOf(const DeviceSpec& card)
{
    using Contexts = std::map<std::string, Bytes, std::less<>>;
    static const Contexts contexts
        = json::read(devicesJson(), "devices.json", [](const json::Json& document) {
              Contexts read;
              for (const json::Json& device : document.at("devices"))
                  read[json::at(device, "name", json::string)]
                      = static_cast<Bytes>(json::at(device, "context_mib", json::number)) * MiB;
              return read;
          }).value();
    const auto found = contexts.find(card.name);
    return found == contexts.end() ? estimatedContext(card.multiprocessors) : found->second;
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
