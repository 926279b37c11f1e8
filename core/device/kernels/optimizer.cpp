// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// Ops over lists of tensors. PyTorch's composite versions loop over the list, and call one op for each tensor; the
// kernels here allocate what CUDA's multi-tensor kernels allocate: nothing in place, else one result for each tensor.
#include "core/device/kernels/allocate.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <array>

namespace headroom::sim {
namespace {

using torch::jit::Stack;

void allocatesNothing(const c10::OperatorHandle& op, Stack* stack)
{
    torch::jit::drop(*stack, op.schema().arguments().size());
}

/// One result like each tensor of the first list. CUDA's kernels take floating-point lists only, as here; PyTorch's
/// own dispatch has computed the type promotion of anything else before.
void listLikeFirst(const c10::OperatorHandle& op, Stack* stack)
{
    const std::size_t first = stack->size() - op.schema().arguments().size();
    std::vector<at::Tensor> results;
    for (const c10::IValue& element : (*stack)[first].toListRef()) {
        const at::Tensor& tensor = element.toTensor();
        TORCH_CHECK(tensor.is_floating_point() || tensor.is_complex(), "The simulated device has ", op.operator_name(),
                    " for floating-point tensors only, got ", tensor.scalar_type());
        results.push_back(emptyLike(tensor));
    }
    torch::jit::drop(*stack, op.schema().arguments().size());
    stack->emplace_back(std::move(results));
}

/// The scale is known to be finite: nothing overflows where nothing is computed.
void ampCheck(at::TensorList, at::Tensor&, const at::Tensor&) {}

at::Tensor& ampUpdateScale(at::Tensor& scale, at::Tensor&, const at::Tensor&, double, double, std::int64_t)
{
    return scale;
}

constexpr auto inPlaceOps = std::to_array<const char*>({"_foreach_add_.Scalar",
                                                        "_foreach_add_.List",
                                                        "_foreach_add_.ScalarList",
                                                        "_foreach_add_.Tensor",
                                                        "_foreach_sub_.Scalar",
                                                        "_foreach_sub_.List",
                                                        "_foreach_sub_.ScalarList",
                                                        "_foreach_mul_.Scalar",
                                                        "_foreach_mul_.List",
                                                        "_foreach_mul_.ScalarList",
                                                        "_foreach_mul_.Tensor",
                                                        "_foreach_div_.Scalar",
                                                        "_foreach_div_.List",
                                                        "_foreach_div_.ScalarList",
                                                        "_foreach_div_.Tensor",
                                                        "_foreach_addcmul_.Scalar",
                                                        "_foreach_addcmul_.ScalarList",
                                                        "_foreach_addcmul_.Tensor",
                                                        "_foreach_addcdiv_.Scalar",
                                                        "_foreach_addcdiv_.ScalarList",
                                                        "_foreach_addcdiv_.Tensor",
                                                        "_foreach_lerp_.List",
                                                        "_foreach_lerp_.Scalar",
                                                        "_foreach_sqrt_",
                                                        "_foreach_rsqrt_",
                                                        "_foreach_reciprocal_",
                                                        "_foreach_neg_",
                                                        "_foreach_abs_",
                                                        "_foreach_sign_",
                                                        "_foreach_exp_",
                                                        "_foreach_log_",
                                                        "_foreach_zero_",
                                                        "_foreach_copy_",
                                                        "_foreach_maximum_.Scalar",
                                                        "_foreach_maximum_.List",
                                                        "_foreach_minimum_.Scalar",
                                                        "_foreach_minimum_.List",
                                                        "_foreach_clamp_min_.Scalar",
                                                        "_foreach_clamp_min_.List",
                                                        "_foreach_clamp_max_.Scalar",
                                                        "_foreach_clamp_max_.List",
                                                        "_foreach_pow_.Scalar",
                                                        "_fused_adam_",
                                                        "_fused_adam_.tensor_lr",
                                                        "_fused_adamw_",
                                                        "_fused_adamw_.tensor_lr",
                                                        "_fused_sgd_",
                                                        "_fused_sgd_.tensor_lr",
                                                        "_fused_adagrad_"});

constexpr auto listOps = std::to_array<const char*>({"_foreach_add.Scalar",     "_foreach_add.List",
                                                     "_foreach_add.ScalarList", "_foreach_sub.Scalar",
                                                     "_foreach_sub.List",       "_foreach_mul.Scalar",
                                                     "_foreach_mul.List",       "_foreach_mul.ScalarList",
                                                     "_foreach_mul.Tensor",     "_foreach_div.Scalar",
                                                     "_foreach_div.List",       "_foreach_div.ScalarList",
                                                     "_foreach_addcmul.Scalar", "_foreach_addcdiv.Scalar",
                                                     "_foreach_lerp.List",      "_foreach_lerp.Scalar",
                                                     "_foreach_sqrt",           "_foreach_rsqrt",
                                                     "_foreach_reciprocal",     "_foreach_neg",
                                                     "_foreach_sign",           "_foreach_exp",
                                                     "_foreach_maximum.List",   "_foreach_minimum.List",
                                                     "_foreach_pow.Scalar"});

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library)
{
    for (const char* name : inPlaceOps)
        library.impl(name, torch::CppFunction::makeFromBoxedFunction<&allocatesNothing>());
    for (const char* name : listOps)
        library.impl(name, torch::CppFunction::makeFromBoxedFunction<&listLikeFirst>());
    library.impl("_amp_foreach_non_finite_check_and_unscale_", ampCheck);
    library.impl("_amp_update_scale_", ampUpdateScale);
}

} // namespace
} // namespace headroom::sim
