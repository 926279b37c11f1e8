// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/bytes.h"
#include "core/cost/roofline.h"

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace headroom {

/// A GPU without memory and without compute: PrivateUse1 under the name `sim`. Tensors on it have storages that are
/// counted but not there (an access faults at once), ops compute shapes only, lifetimes are those of C++'s own
/// reference counts.
namespace sim {

/// Registers the backend, its allocator, guard, hooks, generator and kernels with libtorch, as the card `spec`:
/// attention takes the kernel that CUDA would take there. Idempotent; call before the first tensor. Afterwards the
/// simulated device is *the* accelerator of this process.
void initialize(const DeviceSpec& spec);

at::Device device();

struct MemoryStats
{
    Bytes live = 0; ///< rounded to blocks
    Bytes peak = 0;
    std::int64_t blocks = 0;
    std::int64_t allocations = 0; ///< ever made
    Bytes allocated = 0; ///< by these
    std::int64_t outOfMemories = 0;
    Bytes requested = 0; ///< what programs asked for of the live bytes
    Bytes requestedPeak = 0;
    Bytes reserved = 0; ///< segments of the caching allocator; 0 on a device without a limit
    Bytes reservedPeak = 0;
    std::int64_t segments = 0;
};
MemoryStats memoryStats();
void resetPeak();

/// From now on memory is what the caching allocator makes of the device's `capacity` bytes, fragmentation included, and
/// an allocation for which there is no room throws c10::OutOfMemoryError. At first there is no limit.
void limitMemory(Bytes capacity);

/// Gives what the caching allocator keeps without need back to the device.
void emptyCache();

/// From now on small tensors keep values that follow from values of the program (core/device/known_values.h), as they
/// always do on a simulated CUDA device. Call interceptThread() (core/record/interceptor.h) in every thread that runs
/// ops on the device but autograd's: what another one writes would go unseen.
void keepValues();

/// Gives a storage on the device another size, as resize_ does.
void resizeStorage(c10::StorageImpl& storage, Bytes bytes);

/// Factory functions without a device create on the simulated device while one lives, as `with torch.device("cuda")`.
/// An explicit device stays: torch::tensor(), which builds on the CPU and copies, needs options with device().
class DefaultDevice
{
public:
    DefaultDevice();
    ~DefaultDevice();
    DefaultDevice(const DefaultDevice&) = delete;
    DefaultDevice& operator=(const DefaultDevice&) = delete;

private:
    bool outer_; ///< one lives outside of this one
};

/// Ops without a kernel here, which ran on zero CPU tensors to learn shapes: the last resort.
struct Fallback
{
    std::string op;
    std::int64_t count = 0;
};
std::vector<Fallback> fallbacks();

/// How often a value that a program read, or one that says a size, was invented.
std::int64_t inventedValues();

} // namespace sim
} // namespace headroom
