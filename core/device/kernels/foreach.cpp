// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// Ops over lists of tensors. PyTorch's composite versions loop over the list, and call an op for each tensor; the
// kernels here allocate what CUDA's multi-tensor kernels allocate: nothing in place, else a result for each tensor
// (aten/src/ATen/native/cuda/Foreach*.cu). Fused optimizers and the ops of GradScaler write into the arguments and
// allocate nothing.

#include "core/device/allocate.h"
#include "core/device/boxed_values.h"
#include "core/device/kernels/known_sizes.h"

#include <ATen/AccumulateType.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/result_type.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

namespace headroom::sim {
namespace {

using at::Tensor;
using torch::jit::Stack;

/// Checks that the other lists can be expanded to the first list, the target of the op in place.
void listInPlace(const c10::OperatorHandle& op, Stack* stack)
{
    const auto arguments = argumentsOf(op, *stack);
    const auto written = arguments[0].toListRef();
    for (const c10::IValue& other : arguments.subspan(1)) {
        if (!other.isTensorList())
            continue;
        const auto read = other.toListRef();
        TORCH_CHECK(read.size() == written.size(), "Tensor lists must have the same number of tensors, got ",
                    written.size(), " and ", read.size());
        for (std::size_t j = 0; j < read.size(); ++j)
            requireExpandable(read[j].toTensor(), written[j].toTensor());
    }
    dropArguments(op, stack);
}

void returnList(const c10::OperatorHandle& op, Stack* stack, std::vector<Tensor> results)
{
    dropArguments(op, stack);
    stack->emplace_back(std::move(results));
}

/// Returns a result like each tensor of the first list. With another list or tensor, the type is the promotion of both.
/// Numbers do not change the type of floating-point lists, and CUDA's kernels support no others.
void listLikeFirst(const c10::OperatorHandle& op, Stack* stack)
{
    const auto arguments = argumentsOf(op, *stack);
    const c10::IValue& second = arguments.size() > 1 ? arguments[1] : c10::IValue();
    std::vector<Tensor> results;
    for (const c10::IValue& element : arguments[0].toListRef()) {
        const Tensor& tensor = element.toTensor();
        TORCH_CHECK(tensor.is_floating_point() || tensor.is_complex(), "The simulated device has ", op.operator_name(),
                    " for floating-point tensors only, got ", tensor.scalar_type());
        at::ScalarType type = tensor.scalar_type();
        if (second.isTensorList())
            type = at::result_type(tensor, second.toListRef()[results.size()].toTensor());
        else if (second.isTensor())
            type = at::result_type(tensor, second.toTensor());
        results.push_back(emptyLike(tensor, type));
    }
    returnList(op, stack, std::move(results));
}

/// Runs pow.ScalarAndTensor(number, list).
void listLikeSecond(const c10::OperatorHandle& op, Stack* stack)
{
    std::vector<Tensor> results;
    for (const c10::IValue& element : argumentsOf(op, *stack)[1].toListRef())
        results.push_back(emptyLike(element.toTensor()));
    returnList(op, stack, std::move(results));
}

/// Returns the temporary tensor of a reduction: a number for each chunk of each tensor (ForeachReduceOp.cu).
Tensor chunkResults(at::TensorList tensors)
{
    constexpr std::int64_t chunk = 65536;
    std::int64_t most = 0;
    for (const Tensor& tensor : tensors)
        most = std::max(most, (tensor.numel() + chunk - 1) / chunk);
    return emptyTensor({static_cast<std::int64_t>(tensors.size()) * most},
                       at::toAccumulateType(tensors[0].scalar_type(), /*is_cuda=*/true));
}

std::vector<Tensor> norms(at::TensorList tensors, const at::Scalar&, std::optional<at::ScalarType> type)
{
    const Tensor chunks = chunkResults(tensors);
    std::vector<Tensor> results;
    for (const Tensor& tensor : tensors)
        results.push_back(emptyTensor({}, c10::toRealValueType(type.value_or(tensor.scalar_type()))));
    return results;
}

std::vector<Tensor> largest(at::TensorList tensors)
{
    const Tensor chunks = chunkResults(tensors);
    std::vector<Tensor> results;
    for (const Tensor& tensor : tensors)
        results.push_back(emptyTensor({}, tensor.scalar_type()));
    return results;
}

constexpr auto unary = std::to_array<const char*>(
    {"abs",   "acos",  "asin",    "atan",   "ceil", "cos",   "cosh",  "erf",  "erfc", "exp",
     "expm1", "floor", "frac",    "lgamma", "log",  "log10", "log1p", "log2", "neg",  "reciprocal",
     "round", "rsqrt", "sigmoid", "sign",   "sin",  "sinh",  "sqrt",  "tan",  "tanh", "trunc"});
constexpr auto binary = std::to_array<const char*>(
    {"add", "sub", "mul", "div", "clamp_min", "clamp_max", "maximum", "minimum", "pow", "addcmul", "addcdiv", "lerp"});
constexpr auto overloads = std::to_array<const char*>({".Scalar", ".List", ".ScalarList", ".Tensor"});

void implement(torch::Library& library, const std::string& name, const std::string& overload)
{
    library.impl((name + overload).c_str(), torch::CppFunction::makeFromBoxedFunction<&listLikeFirst>());
    library.impl((name + "_" + overload).c_str(), torch::CppFunction::makeFromBoxedFunction<&listInPlace>());
}

/// Not every op exists with every overload: PyTorch ignores kernels without an op.
TORCH_LIBRARY_IMPL(aten, PrivateUse1, library)
{
    for (const char* name : unary)
        implement(library, std::string("_foreach_") + name, "");
    for (const char* name : binary) {
        for (const char* overload : overloads)
            implement(library, std::string("_foreach_") + name, overload);
    }
    library.impl("_foreach_pow.ScalarAndTensor", torch::CppFunction::makeFromBoxedFunction<&listLikeSecond>());
    library.impl("_foreach_zero_", torch::CppFunction::makeFromBoxedFunction<&listInPlace>());
    library.impl("_foreach_copy_", torch::CppFunction::makeFromBoxedFunction<&listInPlace>());
    library.impl("_foreach_norm.Scalar", norms);
    library.impl("_foreach_max", largest);
}

/// Leaves the flag for infinities unchanged: nothing overflows, since nothing is computed.
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
