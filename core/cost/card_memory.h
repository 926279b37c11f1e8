// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/bytes.h"
#include "core/cost/collective_model.h"
#include "core/cost/op_signature.h"
#include "core/cost/roofline.h"
#include "core/trace/out_of_memory.h"
#include "core/trace/step_trace.h"
#include "core/trace/workspaces.h"

#include <algorithm>
#include <string>
#include <string_view>

namespace headroom {

/// Memory that NCCL holds on a GPU, outside of PyTorch's allocator.
struct NcclMemory
{
    int communicators = 0;
    Bytes bytes = 0; ///< an estimate

    friend bool operator==(const NcclMemory&, const NcclMemory&) = default;
};

/// Bytes of a communicator; `pairs`: the communicator runs an all-to-all.
Bytes ncclCommunicator(const GroupShape& group, const Topology& topology, bool pairs);

/// The memory of all process groups in which the step's collectives ran: PyTorch makes a communicator for each at the
/// first collective. NCCL has a set of buffers for each channel (nccl/issues/864, by NCCL's author). Measured on 4 A100
/// with 24 channels: 544 MiB for two ranks and 688 MiB for more (nccl/issues/964). An all-to-all connects each GPU of a
/// node with each other one: 448 MiB for each of the others on 8 H100 (nccl/issues/1685).
NcclMemory ncclMemory(const StepTrace& step, const Topology& topology);

/// The environment variables that set the sizes of cuBLAS's and cuBLASLt's workspaces. StepInfo::settings has them
/// under the same names.
inline constexpr std::string_view cublasVariable = "CUBLAS_WORKSPACE_CONFIG";
inline constexpr std::string_view cublasLtVariable = "CUBLASLT_WORKSPACE_SIZE";

/// Bytes of the workspaces of each thread that uses the libraries.
struct BlasWorkspaces
{
    Bytes blas = 0;
    Bytes blasLt = 0;
};

/// Parses the variables like aten/src/ATen/cuda/CublasHandlePool.cpp of torch 2.11: `config` is ":SIZE:COUNT" pairs,
/// SIZE in KiB; `ltSize` is in KiB. An empty or invalid text gives the default of the GPU.
BlasWorkspaces blasWorkspaces(const DeviceSpec& card, std::string_view config = {}, std::string_view ltSize = {});
/// The same with the variables of this process's environment.
BlasWorkspaces ownBlasWorkspaces(const DeviceSpec& card);

/// Bytes that an op's kernels allocate beside the results, and free before the op ends: partial results of reductions,
/// gradients of attention in float32, copies that cuBLAS reads, losses of elements. PyTorch's allocator gives the
/// blocks (rounded); MemTracker sees none. `op` is the name of an OpOverload or of its packet. 0 for other ops; few
/// take much (sort, topk). Exact for reductions and flash attention on tensors that are aligned, else an
/// estimate.
Bytes kernelScratch(std::string_view op, const OpSignature& signature, const DeviceSpec& card);

/// Workspaces of libraries during the step on the GPU, and kernelScratch(). cuBLAS's follow PyTorch's rule. cuDNN's are
/// an estimate: kernels for tensor cores read channels-last tensors, so operands and result of a convolution in another
/// layout are copied.
Workspaces workspacesOf(const StepTrace& step, const DeviceSpec& card);

/// The memory of a GPU, and the parts that tensors cannot use.
struct CardMemory
{
    Bytes total = 0; ///< total_memory of torch.cuda.get_device_properties()
    Bytes context = 0; ///< CUDA's context with loaded kernels, outside of PyTorch's allocator
    Bytes workspaces = 0; ///< cuBLAS's and cuBLASLt's blocks of PyTorch's allocator
    NcclMemory nccl = {}; ///< of a distributed step: also outside of PyTorch's allocator

    Bytes allocators() const noexcept { return std::max<Bytes>(total - context - nccl.bytes, 0); } ///< with workspaces
    Bytes usable() const noexcept { return std::max<Bytes>(allocators() - workspaces, 0); }
};

/// Estimated bytes of CUDA's context on a GPU without a known figure, from the number of multiprocessors; within 20 %
/// of the known figures.
Bytes estimatedContext(int multiprocessors) noexcept;

/// The memory for any training step, with workspaces sized by this process's environment: forward and autograd's thread
/// both use cuBLAS, and forward uses cuBLASLt.
CardMemory cardMemory(const DeviceSpec& card);
/// The memory for this step, with the workspaces of the step's ops and the step's communicators.
CardMemory cardMemory(const DeviceSpec& card, const StepTrace& step);

/// Returns "NCCL's buffers (estimated, 22.00 GiB for 32 communicators)"; empty without communicators.
std::string ncclText(const NcclMemory& nccl);
/// Returns a sentence or two: whyOutOfMemory() of a failed allocation of the step, and the memory that NCCL's
/// buffers take on the step's GPU outside of PyTorch's allocator.
std::string whyOutOfMemory(const StepTrace& step, const OutOfMemory& event);

} // namespace headroom
