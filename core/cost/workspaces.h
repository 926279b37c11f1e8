// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/cost/roofline.h"
#include "core/trace/step_trace.h"
#include "core/trace/workspaces.h"

#include <string_view>

namespace headroom {

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

/// Workspaces of libraries during the step on the GPU. cuBLAS's follow PyTorch's rule. cuDNN's are an estimate: kernels
/// for tensor cores read channels-last tensors, so operands and result of a convolution in another layout are copied.
Workspaces workspacesOf(const StepTrace& step, const DeviceSpec& card);

} // namespace headroom
