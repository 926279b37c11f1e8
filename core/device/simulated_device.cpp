// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/device/simulated_device.h"

#include "core/device/simulated_state.h"

#include <c10/core/DeviceType.h>

#include <mutex>

namespace headroom::sim {

SimulatedState& simulatedState()
{
    static auto* const state = new SimulatedState;
    return *state;
}

void initialize(const DeviceSpec& spec)
{
    simulatedState().spec = spec;
    static std::once_flag once;
    std::call_once(once, [] {
        c10::register_privateuse1_backend("sim");
        registerHooks();
        registerMetaKernels();
    });
}

void keepValues()
{
    simulatedState().keepsValues = true;
}

at::Device device()
{
    return {simulatedState().type, 0};
}

MemoryStats memoryStats()
{
    return simulatedState().allocator.stats();
}

void emptyCache()
{
    simulatedState().allocator.emptyCache();
}

void resizeStorage(c10::StorageImpl& storage, Bytes bytes)
{
    simulatedState().allocator.resize(storage, bytes);
}

void resetPeak()
{
    simulatedState().allocator.resetPeak();
}

std::vector<Fallback> fallbacks()
{
    SimulatedState& state = simulatedState();
    const std::lock_guard lock(state.fallbackMutex);
    std::vector<Fallback> result;
    for (const auto& [op, count] : state.fallbacks)
        result.push_back({op, count});
    return result;
}

std::int64_t inventedValues()
{
    return simulatedState().inventedValues;
}

} // namespace headroom::sim
