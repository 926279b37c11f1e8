// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// Elementwise ops and other ops with a result like an argument, where libtorch has no Meta kernel in C++.
#include "core/device/allocate.h"
#include "core/device/boxed_values.h"
#include "core/device/kernels/known_sizes.h"
#include "core/device/simulated_state.h"

#include <ATen/ExpandUtils.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/result_type.h>
#include <ATen/ops/sub.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/ScalarType.h>
#include <torch/library.h>

#include <optional>
#include <tuple>

namespace headroom::sim {
namespace {

using at::Tensor;
using torch::jit::Stack;

/// Returns the tensor at `position` among the arguments of the running op.
const Tensor& tensorArgument(const c10::OperatorHandle& op, const Stack& stack, std::size_t position)
{
    return argumentsOf(op, stack)[position].toTensor();
}

void returnTensor(const c10::OperatorHandle& op, Stack* stack, Tensor result)
{
    dropArguments(op, stack);
    stack->emplace_back(std::move(result));
}

/// f(self, …), f(grad, self, …): a result like the argument at `position`.
template <std::size_t position>
void likeArgument(const c10::OperatorHandle& op, Stack* stack)
{
    returnTensor(op, stack, emptyLike(tensorArgument(op, *stack, position)));
}

/// f(self, …), f(grad, self, …): a contiguous result with the sizes of the argument at `position`.
template <std::size_t position>
void contiguousLikeArgument(const c10::OperatorHandle& op, Stack* stack)
{
    returnTensor(op, stack, emptyContiguous(tensorArgument(op, *stack, position)));
}

/// f(self, …): a result like self; of integers in the default floating-point type.
void floatLikeFirst(const c10::OperatorHandle& op, Stack* stack)
{
    const Tensor& self = tensorArgument(op, *stack, 0);
    const at::ScalarType type = at::isIntegralType(self.scalar_type(), /*includeBool=*/true)
        ? c10::get_default_dtype_as_scalartype()
        : self.scalar_type();
    returnTensor(op, stack, emptyLike(self, type));
}

/// angle(self): a result of the real type for complex numbers.
Tensor angle(const Tensor& self)
{
    if (at::isIntegralType(self.scalar_type(), /*includeBool=*/true))
        return emptyLike(self, c10::get_default_dtype_as_scalartype());
    return emptyLike(self, c10::toRealValueType(self.scalar_type()));
}

/// f(self, …) → (result, mask), of fake quantization.
void likeFirstWithMask(const c10::OperatorHandle& op, Stack* stack)
{
    const Tensor self = tensorArgument(op, *stack, 0);
    dropArguments(op, stack);
    stack->emplace_back(emptyLike(self));
    stack->emplace_back(emptyLike(self, at::kBool));
}

/// f(self, stream) → (): Tensor.record_stream.
void recordStream(const c10::OperatorHandle& op, Stack* stack)
{
    const auto stream = static_cast<std::uint32_t>(argumentsOf(op, *stack)[1].toStream().id());
    simulatedState().allocator.recordStream(tensorArgument(op, *stack, 0).storage().data_ptr(), stream);
    dropArguments(op, stack);
}

/// f(self, …) to bool.
void boolLikeFirst(const c10::OperatorHandle& op, Stack* stack)
{
    returnTensor(op, stack, emptyLike(tensorArgument(op, *stack, 0), at::kBool));
}

/// f_(self, …): self.
void inPlace(const c10::OperatorHandle& op, Stack* stack)
{
    returnTensor(op, stack, tensorArgument(op, *stack, 0));
}

/// f.out(self, …, out): out with the broadcast sizes of the earlier tensors.
void intoLast(const c10::OperatorHandle& op, Stack* stack)
{
    Tensor out = stack->back().toTensor();
    std::vector<std::int64_t> sizes = tensorArgument(op, *stack, 0).sizes().vec();
    const auto arguments = argumentsOf(op, *stack);
    for (const c10::IValue& argument : arguments.subspan(1, arguments.size() - 2)) {
        if (argument.isTensor())
            sizes = at::infer_size(sizes, argument.toTensor().sizes());
    }
    resizeOut(out, sizes);
    returnTensor(op, stack, std::move(out));
}

Tensor whereSelf(const Tensor& condition, const Tensor& self, const Tensor& other)
{
    const at::ScalarType type = at::result_type(self, other);
    const std::vector<std::int64_t> sizes
        = at::infer_size(at::infer_size(condition.sizes(), self.sizes()), other.sizes());
    for (const Tensor* tensor : {&condition, &self, &other}) {
        if (tensor->sizes() == at::IntArrayRef(sizes) && tensor->is_non_overlapping_and_dense())
            return emptyStrided(sizes, tensor->strides(), type);
    }
    return emptyTensor(sizes, type);
}

std::tuple<Tensor, Tensor> preluBackward(const Tensor&, const Tensor& self, const Tensor&)
{
    return {emptyLike(self), emptyLike(self)};
}

/// CUDA computes everything from the input again and leaves the buffer empty.
std::tuple<Tensor, Tensor> logSigmoid(const Tensor& self)
{
    return {emptyLike(self), emptyTensor({0}, self.scalar_type())};
}

// The following ops in place: checks of CUDA that the Meta kernels lack.

/// Throws if the type cannot hold the number, such as -1e9 in half precision.
void requireRoom(const at::Scalar& number, at::ScalarType type)
{
    if (type == at::kHalf)
        number.to<at::Half>();
    else if (type == at::kBFloat16)
        number.to<at::BFloat16>();
    else if (type == at::kFloat)
        number.to<float>();
    else if (type == at::kInt)
        number.to<std::int32_t>();
    else if (type == at::kLong)
        number.to<std::int64_t>();
}

Tensor& maskedFillNumber(Tensor& self, const Tensor& mask, const at::Scalar& number)
{
    requireRoom(number, self.scalar_type());
    TORCH_CHECK(mask.scalar_type() == at::kBool, "masked_fill only supports boolean masks, but got mask with dtype ",
                mask.scalar_type());
    requireExpandable(mask, self);
    return self;
}

Tensor& maskedFill(Tensor& self, const Tensor& mask, const Tensor& value)
{
    TORCH_CHECK(value.dim() == 0, "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with ",
                value.dim(), " dimension(s).");
    return maskedFillNumber(self, mask, 0);
}

Tensor& maskedScatter(Tensor& self, const Tensor& mask, const Tensor& source)
{
    TORCH_CHECK(self.scalar_type() == source.scalar_type(),
                "masked_scatter_: expected self and source to have same dtypes but got ", self.scalar_type(), " and ",
                source.scalar_type());
    TORCH_CHECK(mask.scalar_type() == at::kBool,
                "masked_scatter_ only supports boolean masks, but got mask with dtype ", mask.scalar_type());
    requireExpandable(mask, self);
    return self;
}

Tensor& bernoulli(Tensor& self, const Tensor& probabilities, std::optional<at::Generator>)
{
    requireExpandable(probabilities, self);
    return self;
}

/// Creates the result of an elementwise op on two tensors.
Tensor broadcast(const Tensor& self, const Tensor& other)
{
    const at::ScalarType type = at::result_type(self, other);
    if (self.sizes() == other.sizes() && self.is_non_overlapping_and_dense())
        return emptyLike(self, type);
    return emptyTensor(at::infer_size(self.sizes(), other.sizes()), type);
}

Tensor reverseSubtract(const Tensor& self, const Tensor& other, const at::Scalar& alpha)
{
    return at::sub(other, self, alpha);
}

Tensor remainderOfNumber(const at::Scalar& self, const Tensor& other)
{
    return emptyLike(other, at::result_type(self, other));
}

std::tuple<Tensor&, Tensor&> fractionAndExponent(const Tensor& self, Tensor& mantissa, Tensor& exponent)
{
    resizeOut(mantissa, self.sizes());
    resizeOut(exponent, self.sizes());
    return {mantissa, exponent};
}

/// CUDA's dropout by a mask of bytes.
std::tuple<Tensor, Tensor> byteDropout(const Tensor& self, double, std::optional<at::Generator>)
{
    return {emptyLike(self), emptyLike(self, at::kByte)};
}

std::tuple<Tensor, Tensor> extremes(const Tensor& self)
{
    return {emptyTensor({}, self.scalar_type()), emptyTensor({}, self.scalar_type())};
}

/// aten/src/ATen/native/TensorTransformations.h.
Tensor roll(const Tensor& self, c10::SymIntArrayRef shifts, at::IntArrayRef dims)
{
    TORCH_CHECK(!shifts.empty(), "`shifts` required");
    TORCH_CHECK(shifts.size() == dims.size() || (dims.empty() && shifts.size() == 1),
                "shifts and dimensions must align. shifts: ", shifts.size(), ", dims:", dims.size());
    for (const std::int64_t dim : dims)
        at::maybe_wrap_dim(dim, self.dim());
    return emptyContiguous(self);
}

template <void kernel(const c10::OperatorHandle&, Stack*)>
void implement(torch::Library& library, std::initializer_list<const char*> names)
{
    for (const char* name : names)
        library.impl(name, torch::CppFunction::makeFromBoxedFunction<kernel>());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library)
{
    implement<&likeArgument<0>>(library,
                                {"relu", "hardswish", "hardtanh", "flip", "_prelu_kernel", "rrelu_with_noise",
                                 "poisson", "_standard_gamma", "_sample_dirichlet", "__lshift__.Scalar",
                                 "__lshift__.Tensor", "__rshift__.Scalar", "__rshift__.Tensor", "_masked_scale",
                                 "binomial", "log_sigmoid_backward"});
    implement<&contiguousLikeArgument<0>>(
        library, {"channel_shuffle", "_masked_softmax", "_masked_softmax_backward", "_logcumsumexp"});
    implement<&contiguousLikeArgument<1>>(
        library,
        {"fractional_max_pool3d_backward", "max_pool3d_with_indices_backward", "reflection_pad2d_backward",
         "replication_pad2d_backward", "replication_pad3d_backward", "glu_backward", "mse_loss_backward",
         "smooth_l1_loss_backward", "huber_loss_backward", "nll_loss2d_backward", "multi_margin_loss_backward",
         "multilabel_margin_loss_backward", "_pdist_backward"});
    implement<&floatLikeFirst>(library, {"logit"});
    implement<&likeFirstWithMask>(library,
                                  {"fake_quantize_per_tensor_affine_cachemask",
                                   "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams",
                                   "fake_quantize_per_channel_affine_cachemask"});
    implement<&dropArguments>(library, {"_assert_async", "_assert_async.msg"});
    implement<&recordStream>(library, {"record_stream"});
    implement<&likeArgument<1>>(library,
                                {"hardswish_backward", "hardtanh_backward", "mish_backward", "_standard_gamma_grad",
                                 "binary_cross_entropy_backward"});
    implement<&boolLikeFirst>(library, {"isnan"});
    implement<&inPlace>(library, {"relu_", "hardswish_", "hardtanh_", "logit_", "bernoulli_.float"});
    implement<&intoLast>(library,
                         {"logical_not.out", "abs.out", "angle.out", "nan_to_num.out", "logical_and.out",
                          "logical_or.out", "logical_xor.out", "complex.out", "polar.out", "conj_physical.out",
                          "where.self_out", "logit.out", "floor_divide.out"});
    library.impl("angle", angle);
    library.impl("remainder.Scalar_Tensor", remainderOfNumber);
    library.impl("frexp.Tensor_out", fractionAndExponent);
    library.impl("_fused_dropout", byteDropout);
    library.impl("_aminmax", extremes);
    library.impl("where.self", whereSelf);
    library.impl("masked_fill_.Scalar", maskedFillNumber);
    library.impl("masked_fill_.Tensor", maskedFill);
    library.impl("masked_scatter_", maskedScatter);
    library.impl("bernoulli_.Tensor", bernoulli);
    library.impl("_prelu_kernel_backward", preluBackward);
    library.impl("roll", roll);
    library.impl("log_sigmoid_forward", logSigmoid);
    library.impl("floor_divide", broadcast);
    library.impl("rsub.Tensor", reverseSubtract);
}

} // namespace
} // namespace headroom::sim
