// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/device/argument_checks.h"

#include <ATen/AccumulateType.h>
#include <ATen/TensorUtils.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/CanUse32BitIndexMath.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace headroom::sim {
namespace {

using at::Tensor;
using Arguments = std::span<const c10::IValue>;

bool isGiven(Arguments arguments, std::size_t position)
{
    return arguments[position].isTensor() && arguments[position].toTensor().defined();
}

at::ScalarType typeOf(Arguments arguments, std::size_t position)
{
    return arguments[position].toTensor().scalar_type();
}

bool isIntegral(at::ScalarType type)
{
    return at::isIntegralType(type, /*includeBool=*/true);
}

/// Throws as Tensor::data_ptr<scalar_t>() does if the argument is given and is of another type.
void expectType(at::ScalarType type, Arguments arguments, std::size_t position)
{
    TORCH_CHECK(!isGiven(arguments, position) || typeOf(arguments, position) == type, "expected scalar type ", type,
                " but found ", typeOf(arguments, position));
}

/// The arguments at `others` have the type of the argument at `first`.
template <std::size_t first, std::size_t... others>
void sameType(Arguments arguments, const char*)
{
    (expectType(typeOf(arguments, first), arguments, others), ...);
}

/// The argument holds 64-bit indices.
template <std::size_t position>
void longType(Arguments arguments, const char*)
{
    expectType(at::kLong, arguments, position);
}

[[noreturn]] void throwNotImplemented(const char* kernel, at::ScalarType type)
{
    TORCH_CHECK_NOT_IMPLEMENTED(false, '"', kernel, "\" not implemented for '", c10::toString(type), "'");
}

/// The argument is no integer.
template <std::size_t position>
void noInteger(Arguments arguments, const char* kernel)
{
    if (isIntegral(typeOf(arguments, position)))
        throwNotImplemented(kernel, typeOf(arguments, position));
}

/// The argument is of a type with at least the precision of float32.
template <std::size_t position>
void noHalf(Arguments arguments, const char* kernel)
{
    const at::ScalarType type = typeOf(arguments, position);
    if (at::isReducedFloatingType(type) || isIntegral(type))
        throwNotImplemented(kernel, type);
}

/// The arguments are integers or booleans.
template <std::size_t... positions>
void integers(Arguments arguments, const char* kernel)
{
    const auto examine = [&](std::size_t position) {
        if (!isIntegral(typeOf(arguments, position)))
            throwNotImplemented(kernel, typeOf(arguments, position));
    };
    (examine(positions), ...);
}

/// The argument holds indices of 32 or 64 bits.
template <std::size_t position>
void indexType(Arguments arguments, const char* kernel)
{
    const at::ScalarType type = typeOf(arguments, position);
    if (type != at::kInt && type != at::kLong)
        throwNotImplemented(kernel, type);
}

/// _cdist_forward(x1, x2, …).
void distanceTypes(Arguments arguments, const char* kernel)
{
    noHalf<0>(arguments, kernel);
    sameType<0, 1>(arguments, kernel);
}

/// mm(self, mat2).
void productTypes(Arguments arguments, const char* kernel)
{
    const Tensor& self = arguments[0].toTensor();
    const Tensor& other = arguments[1].toTensor();
    TORCH_CHECK(self.dtype() == other.dtype(), "expected mat1 and mat2 to have the same dtype, but got: ", self.dtype(),
                " != ", other.dtype());
    noInteger<0>(arguments, kernel);
}

/// bmm(self, mat2), baddbmm(self, batch1, batch2).
template <std::size_t first>
void batchedProductTypes(Arguments arguments, const char* kernel)
{
    noInteger<first>(arguments, kernel);
    sameType<first, first + 1>(arguments, kernel);
}

/// addmv(self, mat, vec).
void vectorProductTypes(Arguments arguments, const char* kernel)
{
    noInteger<1>(arguments, kernel);
    sameType<1, 0, 2>(arguments, kernel);
}

/// native_layer_norm(input, normalized_shape, weight, bias, eps).
void layerNormTypes(Arguments arguments, const char* kernel)
{
    noInteger<0>(arguments, kernel);
    sameType<0, 2, 3>(arguments, kernel);
}

/// native_group_norm(input, weight, bias, …).
void groupNormTypes(Arguments arguments, const char* kernel)
{
    noInteger<0>(arguments, kernel);
    sameType<0, 1, 2>(arguments, kernel);
}

/// A name and a position of an argument.
struct Named
{
    const char* name;
    std::size_t position;
};

/// Returns the type that CUDA's batch normalisation expects of its parameters. For half-precision inputs the parameters
/// may be in float32: the first given parameter decides.
at::ScalarType typeOfParameters(at::ScalarType input, Arguments arguments,
                                std::initializer_list<std::size_t> parameters)
{
    const auto* const first
        = std::ranges::find_if(parameters, [&](std::size_t position) { return isGiven(arguments, position); });
    const bool mixed = first != parameters.end() && typeOf(arguments, *first) != input;
    return mixed ? at::toAccumulateType(input, /*is_cuda=*/true) : input;
}

/// Throws as CUDA's batch normalisation does if an argument is given and is of another type.
void expectNamed(at::ScalarType type, Arguments arguments, std::initializer_list<Named> named)
{
    for (const auto& [name, position] : named)
        TORCH_CHECK(!isGiven(arguments, position) || typeOf(arguments, position) == type, "Expected ", name,
                    " to have type ", type, " but got ", typeOf(arguments, position));
}

/// Whether CUDA's batch normalisation has kernels for channels that lie side by side, as in two dimensions.
bool hasChannelsLast(const Tensor& input)
{
    return input.is_contiguous(at::MemoryFormat::ChannelsLast) || (input.is_contiguous() && input.stride(1) == 1);
}

/// native_batch_norm(input, weight, bias, …). An input of other strides, or a large input, goes through TensorIterator,
/// where all types are allowed. No kernel of the forward minds the type of the running statistics.
void batchNormTypes(Arguments arguments, const char* kernel)
{
    noInteger<0>(arguments, kernel);
    const Tensor& input = arguments[0].toTensor();
    if (input.dim() < 2 || !at::native::canUse32BitIndexMath(input))
        return;
    const at::ScalarType type = typeOfParameters(input.scalar_type(), arguments, {1, 2});
    if (hasChannelsLast(input)) {
        for (const std::size_t parameter : {1, 2})
            expectType(type, arguments, parameter);
    } else if (input.is_contiguous())
        expectNamed(type, arguments, {{"weight", 1}, {"bias", 2}});
}

/// native_batch_norm_backward(grad_out, input, weight, running_mean, running_var, save_mean, save_invstd, train, eps,
/// output_mask). The kernel for all gradients at once reads the running statistics with the type of the weight; no
/// other kernel reads the statistics.
void batchNormBackwardTypes(Arguments arguments, const char*)
{
    const Tensor& gradient = arguments[0].toTensor();
    const Tensor& input = arguments[1].toTensor();
    const auto mask = arguments[9].toBoolList();
    const bool reduces = arguments[7].toBool() || mask[1] || mask[2];
    if (!reduces || !mask[0] || input.dim() < 2 || hasChannelsLast(input)
        || input.is_contiguous(at::MemoryFormat::ChannelsLast3d) || !at::native::canUse32BitIndexMath(input)
        || !at::native::canUse32BitIndexMath(gradient))
        return;
    expectNamed(input.scalar_type(), arguments, {{"grad_output", 0}});
    expectNamed(typeOfParameters(input.scalar_type(), arguments, {2, 3, 4}), arguments,
                {{"weight", 2}, {"running_mean", 3}, {"running_var", 4}});
}

/// cudnn_batch_norm(input, weight, bias, running_mean, running_var, …).
void cudnnBatchNormTypes(Arguments arguments, const char*)
{
    constexpr const char* method = "cudnn_batch_norm";
    constexpr std::array names{"input", "weight", "bias", "running_mean", "running_var"};
    std::array<Tensor, names.size()> tensors;
    std::vector<at::TensorArg> named;
    for (std::size_t i = 0; i < names.size(); ++i) {
        if (isGiven(arguments, i))
            tensors[i] = arguments[i].toTensor();
        named.emplace_back(tensors[i], names[i], static_cast<int>(i + 1));
    }
    if (typeOf(arguments, 0) == at::kHalf)
        at::checkScalarType(method, named[1], at::kFloat);
    else
        at::checkAllSameType(method, {named[0], named[1]});
    at::checkAllSameType(method, {named[1], named[2], named[3], named[4]});
}

/// binary_cross_entropy(self, target, …).
void entropyTypes(Arguments arguments, const char*)
{
    TORCH_CHECK(typeOf(arguments, 0) == typeOf(arguments, 1), "Found dtype ", typeOf(arguments, 1), " but expected ",
                typeOf(arguments, 0));
}

/// nll_loss_forward(self, target, weight, reduction, ignore_index).
void lossTypes(Arguments arguments, const char*)
{
    constexpr std::int64_t noReduction = 0;
    const at::ScalarType target = typeOf(arguments, 1);
    if (target != at::kLong && target != at::kByte)
        throwNotImplemented(arguments[0].toTensor().dim() == 1        ? "nll_loss_forward_reduce_cuda_kernel_1d_index"
                                : arguments[3].toInt() == noReduction ? "nll_loss_forward_no_reduce_cuda_kernel_index"
                                                                      : "nll_loss_forward_reduce_cuda_kernel_2d_index",
                            target);
    sameType<0, 2>(arguments, nullptr);
}

/// nll_loss2d_forward(self, target, weight, …).
void imageLossTypes(Arguments arguments, const char*)
{
    longType<1>(arguments, nullptr);
    sameType<0, 2>(arguments, nullptr);
}

/// masked_select(self, mask).
void maskType(Arguments arguments, const char*)
{
    const at::ScalarType mask = typeOf(arguments, 1);
    TORCH_CHECK(mask == at::kBool || mask == at::kByte, "masked_select: expected BoolTensor for mask");
}

/// where(condition, self, other).
void conditionType(Arguments arguments, const char*)
{
    const at::ScalarType condition = typeOf(arguments, 0);
    TORCH_CHECK(condition == at::kBool || condition == at::kByte,
                "where expected condition to be a boolean tensor, but got a tensor with dtype ", condition);
}

const std::unordered_map<std::string_view, TypeCheck>& typeChecks()
{
    static const auto* const checks = new std::unordered_map<std::string_view, TypeCheck>{
        {"mm", {&productTypes, "addmm_cuda"}},
        {"mm.out", {&productTypes, "addmm_cuda"}},
        {"addmm", {&noInteger<1>, "addmm_cuda"}}, // the Meta kernel compares the types
        {"addmm_", {&noInteger<1>, "addmm_cuda"}},
        {"addmm.out", {&noInteger<1>, "addmm_cuda"}},
        {"addbmm", {&noInteger<1>, "addmm_cuda"}},
        {"_addmm_activation", {&noInteger<1>, "addmm_cuda"}},
        {"bmm", {&batchedProductTypes<0>, "baddbmm_cuda"}},
        {"bmm.out", {&batchedProductTypes<0>, "baddbmm_cuda"}},
        {"baddbmm", {&batchedProductTypes<1>, "baddbmm_cuda"}},
        {"baddbmm_", {&batchedProductTypes<1>, "baddbmm_cuda"}},
        {"baddbmm.out", {&batchedProductTypes<1>, "baddbmm_cuda"}},
        {"addmv", {&vectorProductTypes, "addmv_impl_cuda"}},
        {"addmv_", {&vectorProductTypes, "addmv_impl_cuda"}},
        {"addmv.out", {&vectorProductTypes, "addmv_impl_cuda"}},
        {"dot", {&noInteger<0>, "dot"}},
        {"vdot", {&noInteger<0>, "vdot"}},
        {"_cdist_forward", {&distanceTypes, "cdist_cuda"}},
        {"_linalg_svd", {&noHalf<0>, "svd_cuda_gesvdj"}},
        {"linalg_cholesky_ex", {&noHalf<0>, "cholesky_cusolver"}},
        {"cholesky", {&noHalf<0>, "cholesky_cusolver"}},
        {"linalg_lu_factor_ex", {&noHalf<0>, "lu_factor_cusolver"}},
        {"_ctc_loss", {&noHalf<0>, "ctc_loss_cuda"}},
        {"linalg_cross", {&sameType<0, 1>}},
        {"native_layer_norm", {&layerNormTypes, "LayerNormKernelImpl"}},
        {"native_group_norm", {&groupNormTypes, "GroupNormKernelImpl"}},
        {"native_batch_norm", {&batchNormTypes, "batch_norm_stats_cuda"}},
        {"_native_batch_norm_legit", {&batchNormTypes, "batch_norm_stats_cuda"}},
        {"_native_batch_norm_legit.no_stats", {&batchNormTypes, "batch_norm_stats_cuda"}},
        {"_batch_norm_with_update", {&batchNormTypes, "batch_norm_stats_cuda"}},
        {"native_batch_norm_backward", {&batchNormBackwardTypes}},
        {"batch_norm_backward", {&batchNormBackwardTypes}},
        {"cudnn_batch_norm", {&cudnnBatchNormTypes}},
        {"grid_sampler_2d", {&sameType<0, 1>}},
        {"grid_sampler_3d", {&sameType<0, 1>}},
        {"binary_cross_entropy", {&entropyTypes}},
        {"nll_loss_forward", {&lossTypes}},
        {"nll_loss2d_forward", {&imageLossTypes}},
        {"multi_margin_loss", {&longType<1>}},
        {"multilabel_margin_loss_forward", {&longType<1>}},
        {"_softmax", {&noInteger<0>, "host_softmax"}},
        {"_log_softmax", {&noInteger<0>, "host_softmax"}},
        {"gelu", {&noInteger<0>, "GeluCUDAKernelImpl"}},
        {"silu", {&noInteger<0>, "silu_cuda"}},
        {"leaky_relu", {&noInteger<0>, "leaky_relu_cuda"}},
        {"softplus", {&noInteger<0>, "softplus_cuda"}},
        {"hardswish", {&noInteger<0>, "hardswish_cuda"}},
        {"hardsigmoid", {&noInteger<0>, "hardsigmoid_cuda"}},
        {"mish", {&noInteger<0>, "mish_cuda"}},
        {"glu", {&noInteger<0>, "glu_cuda"}},
        {"avg_pool2d", {&noInteger<0>, "avg_pool2d_out_cuda_frame"}},
        {"avg_pool3d", {&noInteger<0>, "avg_pool3d_out_frame"}},
        {"max_pool2d_with_indices", {&noInteger<0>, "max_pool2d_with_indices_out_cuda_frame"}},
        {"max_pool3d_with_indices", {&noInteger<0>, "max_pool3d_with_indices_out_frame"}},
        {"_adaptive_avg_pool2d", {&noInteger<0>, "adaptive_avg_pool2d_cuda"}},
        {"_adaptive_avg_pool3d", {&noInteger<0>, "adaptive_avg_pool3d_cuda"}},
        {"upsample_bilinear2d", {&noInteger<0>, "upsample_bilinear2d_out_frame"}},
        {"bincount", {&integers<0>, "bincount_cuda"}},
        {"bitwise_not", {&integers<0>, "bitwise_not_cuda"}},
        {"bitwise_and.Tensor", {&integers<0, 1>, "bitwise_and_cuda"}},
        {"bitwise_or.Tensor", {&integers<0, 1>, "bitwise_or_cuda"}},
        {"bitwise_xor.Tensor", {&integers<0, 1>, "bitwise_xor_cuda"}},
        {"bitwise_and_.Tensor", {&integers<0, 1>, "bitwise_and_cuda"}},
        {"bitwise_or_.Tensor", {&integers<0, 1>, "bitwise_or_cuda"}},
        {"bitwise_xor_.Tensor", {&integers<0, 1>, "bitwise_xor_cuda"}},
        {"index_select", {&indexType<2>, "index_select_out_cuda_impl"}},
        {"masked_select", {&maskType}},
        {"where.self", {&conditionType}},
    };
    return *checks;
}

} // namespace

TypeCheck typeCheckOf(const c10::OperatorHandle& op)
{
    const auto found = typeChecks().find(atenNameOf(op));
    return found == typeChecks().end() ? TypeCheck{} : found->second;
}

} // namespace headroom::sim
