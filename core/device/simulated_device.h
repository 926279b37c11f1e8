// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/bytes.h"
#include "core/cost/roofline.h"

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace headroom {

/// A GPU without memory and without compute: PrivateUse1 under the name `sim`. Storages on the device are counted but
/// have no memory (an access faults at once). Ops compute only shapes. Lifetimes follow C++'s own reference counts.
namespace sim {

/// Registers the backend with libtorch, as the card `spec`: allocator, guard, hooks, generator and kernels. Attention
/// uses the kernel that CUDA would use on that card. Idempotent; call initialize() before the first tensor. Afterwards
/// the simulated device is *the* accelerator of this process.
void initialize(const DeviceSpec& spec);

at::Device device();

struct MemoryStats
{
    Bytes live = 0; ///< rounded to blocks
    Bytes peak = 0;
    std::int64_t blocks = 0;
    std::int64_t allocations = 0; ///< since the start
    Bytes allocated = 0; ///< bytes of all allocations since the start
    std::int64_t outOfMemories = 0;
    Bytes requested = 0; ///< live bytes without rounding
    Bytes requestedPeak = 0;
    Bytes reserved = 0; ///< segments of the caching allocator; 0 on a device without a limit
    Bytes reservedPeak = 0;
    std::int64_t segments = 0;
};
MemoryStats memoryStats();
void resetPeak();

/// Returns unused segments of the caching allocator to the device, as torch.cuda.empty_cache() does.
void emptyCache();

/// Lets small tensors keep values that follow from values of the program (core/device/known_storage.h); a simulated
/// CUDA device always does. Call interceptThread() (core/record/interceptor.h) in every thread that runs ops on the
/// device, except autograd's: writes of other threads would be missed.
void keepValues();

/// Resizes a storage on the device to `bytes`, as resize_ does.
void resizeStorage(c10::StorageImpl& storage, Bytes bytes);

/// While this object lives, factory functions without a device create tensors on the simulated device, as within `with
/// torch.device("cuda")`. An explicit device is kept: torch::tensor(), which builds on the CPU and copies, needs
/// options with device().
class DefaultDevice
{
public:
    DefaultDevice();
    ~DefaultDevice();
    DefaultDevice(const DefaultDevice&) = delete;
    DefaultDevice& operator=(const DefaultDevice&) = delete;

private:
    bool outer_; ///< another DefaultDevice was alive at construction
};

/// An op without a kernel on the device: run on CPU tensors of zeros to learn shapes, as the last resort.
struct Fallback
{
    std::string op;
    std::int64_t count = 0;
};
std::vector<Fallback> fallbacks();

/// Returns how many placeholder values the program read, those that determine a size included.
std::int64_t placeholderValues();

/// Blocks until autograd's thread of the simulated device has released all tensors of earlier backward passes. A
/// backward pass returns to the caller a moment before that thread drops the last tensors, and the drop may need the
/// GIL. Python 3.11 and older end a thread that requests the GIL during shutdown, and so the process (std::terminate).
/// The caller must not hold the GIL. Throws c10::Error in a process that was forked after a backward pass.
void awaitAutogradThread();

/// Begins, in this thread, a backward pass that returns gradients. Not inside another backward pass.
void beginReturningGradients();

/// Ends the backward pass. Blocks until autograd's thread of the simulated device has released the returned gradients,
/// at most 100 ms: a gradient that the program drops is then freed at once, at the same op in each run. The caller must
/// not hold the GIL.
void endReturningGradients();

} // namespace sim
} // namespace headroom
