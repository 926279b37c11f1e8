// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cost/card_memory.h"

#include "core/base/json_reader.h"
#include "core/cost/devices_json.h"
#include "core/cost/time_model.h"

#include <array>
#include <map>
#include <string>
#include <string_view>

namespace headroom {
namespace {

using namespace std::string_view_literals;

/// Whose workspaces a thread has. cuBLASLt's handle is cuBLAS's: who uses it has both.
struct Libraries
{
    bool blas = false;
    bool blasLt = false;
};

// A bias that is added to a product goes through cuBLASLt (at::native::addmm_out_cuda_impl).
constexpr std::array blasLtOps{"aten.addmm"sv, "aten._addmm_activation"sv, "aten._scaled_mm"sv};

/// aten/src/ATen/cuda/CublasHandlePool.cpp of torch 2.11: one for each handle and stream, kept for good.
Bytes workspacesOf(const DeviceSpec& card, const Libraries& thread) noexcept
{
    const Bytes blas = card.computeCapability == 90 ? 8 * 4096 * KiB : (2 * 4096 + 8 * 16) * KiB;
    const Bytes blasLt = 1024 * KiB;
    return (thread.blas ? blas : 0) + (thread.blasLt ? blasLt : 0);
}

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
    return {card.memory, contextOf(card),
            workspacesOf(card, {.blas = true, .blasLt = true}) + workspacesOf(card, {.blas = true})};
}

CardMemory cardMemory(const DeviceSpec& card, const StepTrace& step)
{
    Libraries program;
    Libraries autograd;
    for (std::uint32_t row = 0; row < step.ops.size(); ++row) {
        const OpId op(row);
        if (workOf(step, op).kind != WorkClass::matmul)
            continue;
        const std::string_view name = step.opName(op);
        Libraries& thread = step.ops.phase[op] == Phase::backward ? autograd : program;
        thread.blas = true;
        thread.blasLt
            = thread.blasLt || std::ranges::find(blasLtOps, name.substr(0, name.rfind('.'))) != blasLtOps.end();
    }
    return {card.memory, contextOf(card), workspacesOf(card, program) + workspacesOf(card, autograd)};
}

} // namespace headroom
