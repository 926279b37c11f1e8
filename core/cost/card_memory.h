// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/bytes.h"
#include "core/cost/nccl_memory.h"
#include "core/cost/roofline.h"
#include "core/trace/out_of_memory.h"
#include "core/trace/step_trace.h"

#include <algorithm>
#include <string>

namespace headroom {

/// The memory of a GPU, and its parts that tensors cannot use.
struct CardMemory
{
    Bytes total = 0; ///< total_memory of torch.cuda.get_device_properties()
    Bytes context = 0; ///< CUDA's context with its loaded kernels, outside of PyTorch's allocator
    Bytes workspaces = 0; ///< cuBLAS's and cuBLASLt's blocks of PyTorch's allocator
    NcclMemory nccl = {}; ///< of a distributed step: also outside of PyTorch's allocator

    Bytes allocators() const noexcept { return std::max<Bytes>(total - context - nccl.bytes, 0); } ///< with workspaces
    Bytes usable() const noexcept { return std::max<Bytes>(allocators() - workspaces, 0); }
};

/// Estimated bytes of CUDA's context on a GPU whose figure is unknown, from its number of multiprocessors; within 20 %
/// of the known figures.
Bytes estimatedContext(int multiprocessors) noexcept;

/// The memory for any training step, with workspaces sized by this process's environment: forward and autograd's thread
/// both use cuBLAS, and forward uses cuBLASLt.
CardMemory cardMemory(const DeviceSpec& card);
/// The memory for this step, with the workspaces that its ops allocate and its communicators.
CardMemory cardMemory(const DeviceSpec& card, const StepTrace& step);

/// Returns "NCCL's buffers (estimated, 22.00 GiB for 32 communicators)"; empty without communicators.
std::string ncclText(const NcclMemory& nccl);
/// Returns one or two sentences: whyOutOfMemory() of a failed allocation of the step, and the memory that NCCL's
/// buffers take on the step's GPU, which PyTorch does not reserve.
std::string whyOutOfMemory(const StepTrace& step, const OutOfMemory& event);

} // namespace headroom
