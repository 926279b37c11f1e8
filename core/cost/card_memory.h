// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/bytes.h"
#include "core/cost/nccl_memory.h"
#include "core/cost/roofline.h"
#include "core/trace/step_trace.h"

#include <algorithm>

namespace headroom {

/// What a card has, and what it does not give to tensors.
struct CardMemory
{
    Bytes total = 0; ///< what torch.cuda.get_device_properties() says
    Bytes context = 0; ///< CUDA's context with the kernels that it loaded, which PyTorch's allocator does not know
    Bytes workspaces = 0; ///< of cuBLAS and cuBLASLt: blocks of PyTorch's allocator that no tensor has
    NcclMemory nccl = {}; ///< of a distributed step: what PyTorch's allocator does not know either

    Bytes allocators() const noexcept { return std::max<Bytes>(total - context - nccl.bytes, 0); } ///< with workspaces
    Bytes usable() const noexcept { return std::max<Bytes>(allocators() - workspaces, 0); }
};

/// Of a card without its figure: what those with one have for their multiprocessors, within 20 %.
Bytes estimatedContext(int multiprocessors) noexcept;

/// For any training step of this program's environment: forward multiplies matrices with a bias, autograd's thread
/// multiplies some too.
CardMemory cardMemory(const DeviceSpec& card);
/// For this step: a thread that multiplies no matrices has no workspace, and its communicators are known.
CardMemory cardMemory(const DeviceSpec& card, const StepTrace& step);

} // namespace headroom
