// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// Autocast on the simulated device: PyTorch's own lists of ops, which are those of CUDA.
#include <ATen/Operators.h>
#include <ATen/autocast_mode.h>
#include <torch/library.h>

using namespace at; // the lists name Tensor, ScalarType and others without their namespace

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m)
{
    m.fallback(torch::CppFunction::makeFallthrough());
}

// The macros of ATen/autocast_mode.h register into a library named m.
TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m)
{
#define HEADROOM_LOWER_PRECISION(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
    AT_FORALL_LOWER_PRECISION_FP(HEADROOM_LOWER_PRECISION)
#undef HEADROOM_LOWER_PRECISION
#define HEADROOM_FLOAT32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
    AT_FORALL_FP32(HEADROOM_FLOAT32)
#undef HEADROOM_FLOAT32
#define HEADROOM_FLOAT32_RESULT(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
    AT_FORALL_FP32_SET_OPT_DTYPE(HEADROOM_FLOAT32_RESULT)
#undef HEADROOM_FLOAT32_RESULT
    AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)
#define HEADROOM_PROMOTE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)
    AT_FORALL_PROMOTE(HEADROOM_PROMOTE)
#undef HEADROOM_PROMOTE
}
