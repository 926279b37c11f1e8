// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/cost/roofline.h"
#include "core/trace/step_trace.h"
#include "core/trace/workspaces.h"

#include <string_view>

namespace headroom {

/// The variables with which a program sizes cuBLAS's workspaces. StepInfo::settings holds them under the same names.
inline constexpr std::string_view cublasVariable = "CUBLAS_WORKSPACE_CONFIG";
inline constexpr std::string_view cublasLtVariable = "CUBLASLT_WORKSPACE_SIZE";

/// Bytes for each thread that uses the library.
struct BlasWorkspaces
{
    Bytes blas = 0;
    Bytes blasLt = 0;
};

/// As aten/src/ATen/cuda/CublasHandlePool.cpp of torch 2.11 reads the variables: ":SIZE:COUNT" pairs in KiB, and KiB.
/// An empty one, or one that it refuses, stands for the default of the card.
BlasWorkspaces blasWorkspaces(const DeviceSpec& card, std::string_view config = {}, std::string_view ltSize = {});
/// Of this program's own environment.
BlasWorkspaces ownBlasWorkspaces(const DeviceSpec& card);

/// What libraries take during the step on the card. cuBLAS's is PyTorch's own rule; cuDNN's an estimate: kernels for
/// tensor cores read channels last, so the operands and the result of a convolution in another layout are copied.
Workspaces workspacesOf(const StepTrace& step, const DeviceSpec& card);

} // namespace headroom
