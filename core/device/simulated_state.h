// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/cost/roofline.h"
#include "core/device/simulated_allocator.h"

#include <c10/core/DispatchKeySet.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace headroom::sim {

/// All global state of the simulated device. The state must be global: libtorch knows a single allocator, and a single
/// kernel per op, for the process, and passes no context in calls. The state is never destroyed, since tensors of
/// static storage duration may be freed after main().
struct SimulatedState
{
    SimulatedAllocator allocator;
    DeviceSpec spec; ///< written by initialize() only
    /// The device type in libtorch: PrivateUse1, or CUDA itself. Written before the first tensor.
    c10::DeviceType type = c10::DeviceType::PrivateUse1;
    bool keepsValues = false; ///< small tensors keep values (on CUDA always); written before the first tensor
    std::atomic<std::int64_t> placeholderValues{0};
    std::mutex fallbackMutex;
    std::map<std::string, std::int64_t> fallbacks; ///< by op
    std::atomic<std::int64_t> fallbackCount{0}; ///< sum of the counts, compared by the recorder around each op
};
SimulatedState& simulatedState();

inline bool isSimulated(c10::Device device)
{
    return device.type() == simulatedState().type;
}

/// The dispatch keys of a dense tensor on the device.
inline c10::DispatchKeySet simulatedKeys()
{
    return c10::DispatchKeySet(simulatedState().type == c10::DeviceType::CUDA ? c10::DispatchKey::CUDA
                                                                              : c10::DispatchKey::PrivateUse1);
}

/// Registers the hooks of the device at PrivateUse1 (generator, resizing of storages) with libtorch. Call
/// registerHooks() once in a process.
void registerHooks();

/// Registers kernels for collectives of torch.distributed on the simulated device: no other process is contacted.
void registerCollectives();

/// Gives the ops that have a Meta kernel but no kernel of the device a kernel that goes through Meta.
void registerMetaKernels();

/// Returns the total of the flops that were declared for opaque kernels (kernels/opaque.cpp) in this thread. The
/// recorder compares the totals before and after an op, since an op of another library may launch such a kernel.
double opaqueFlops();

} // namespace headroom::sim
