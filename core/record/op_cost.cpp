// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/record/op_cost.h"

#include "core/device/boxed_values.h"

namespace headroom {
namespace {

TensorShape shapeOf(const at::Tensor& tensor)
{
    TensorShape shape;
    shape.dtype = dtypeOf(tensor.scalar_type());
    shape.itemSize = static_cast<int>(tensor.dtype().itemsize());
    if (tensor.layout() == at::kStrided) {
        shape.sizes.assign(tensor.sizes().begin(), tensor.sizes().end());
        shape.strides.assign(tensor.strides().begin(), tensor.strides().end());
    }
    return shape;
}

} // namespace

DType dtypeOf(at::ScalarType type)
{
    switch (type) {
    case at::kFloat:
        return DType::float32;
    case at::kDouble:
        return DType::float64;
    case at::kHalf:
        return DType::float16;
    case at::kBFloat16:
        return DType::bfloat16;
    case at::kFloat8_e4m3fn:
    case at::kFloat8_e5m2:
    case at::kFloat8_e4m3fnuz:
    case at::kFloat8_e5m2fnuz:
        return DType::float8;
    case at::kLong:
        return DType::int64;
    case at::kInt:
        return DType::int32;
    case at::kShort:
        return DType::int16;
    case at::kChar:
        return DType::int8;
    case at::kByte:
        return DType::uint8;
    case at::kBool:
        return DType::boolean;
    case at::kComplexFloat:
        return DType::complex64;
    case at::kComplexDouble:
        return DType::complex128;
    default:
        return DType::other;
    }
}

void OpCost::addInputs(const OpFacts& facts, const torch::jit::Stack& stack)
{
    const std::size_t first = stack.size() - facts.arguments;
    for (std::size_t i = first; i < stack.size(); ++i) {
        forEachTensor(stack[i], [&](const at::Tensor& tensor) {
            if (!tensor.unsafeGetTensorImpl()->is_wrapped_number())
                shapes_.push_back(shapeOf(tensor));
        });
    }
    inputCount_ = shapes_.size();
    // convolution(input, weight, bias, stride, padding, dilation, transposed, …);
    // convolution_backward(grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed, …, mask)
    if (facts.kind == OpFacts::Kind::convolution) {
        convolution_.transposed = stack[first + 6].toBool();
    } else if (facts.kind == OpFacts::Kind::convolutionBackward) {
        convolution_.transposed = stack[first + 7].toBool();
        const auto mask = stack.back().toBoolList();
        convolution_.gradInput = mask.get(0);
        convolution_.gradWeight = mask.get(1);
    }
}

void OpCost::addOutputs(const OpFacts& facts, const torch::jit::Stack& stack)
{
    for (std::size_t i = stack.size() - facts.returns; i < stack.size(); ++i)
        forEachTensor(stack[i], [&](const at::Tensor& tensor) { shapes_.push_back(shapeOf(tensor)); });
}

DType OpCost::dtype() const noexcept
{
    return shapes_.size() > inputCount_ ? shapes_[inputCount_].dtype : DType::other;
}

double OpCost::flops(const OpFacts& facts) const
{
    const std::span<const TensorShape> shapes(shapes_);
    return headroom::flops(facts.name, shapes.first(inputCount_), shapes.subspan(inputCount_), convolution_);
}

} // namespace headroom
