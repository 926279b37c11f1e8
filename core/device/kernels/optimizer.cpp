// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// Fused optimizers and the ops of GradScaler: all of them write into their arguments and allocate nothing.
#include "core/device/allocate.h"
#include "core/device/boxed_values.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

namespace headroom::sim {
namespace {

/// Leaves the flag for infinities as it is: nothing overflows, since nothing is computed.
void ampCheck(at::TensorList, at::Tensor&, const at::Tensor&) {}

at::Tensor& ampUpdateScale(at::Tensor& scale, at::Tensor&, const at::Tensor&, double, double, std::int64_t)
{
    return scale;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library)
{
    for (const char* name : {"_fused_adam_", "_fused_adam_.tensor_lr", "_fused_adamw_", "_fused_adamw_.tensor_lr",
                             "_fused_sgd_", "_fused_sgd_.tensor_lr", "_fused_adagrad_", "_fused_adagrad_.tensor_lr"})
        library.impl(name, torch::CppFunction::makeFromBoxedFunction<&dropArguments>());
    library.impl("_amp_foreach_non_finite_check_and_unscale_", ampCheck);
    library.impl("_amp_update_scale_", ampUpdateScale);
}

} // namespace
} // namespace headroom::sim
