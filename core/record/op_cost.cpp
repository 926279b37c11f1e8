// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/record/op_cost.h"

#include "core/device/boxed_values.h"
#include "core/device/sparse_tensor.h"

#include <ATen/Context.h>

#include <algorithm>
#include <array>

namespace headroom {
namespace {

TensorShape tensorShapeOf(const at::Tensor& tensor)
{
    TensorShape shape;
    shape.dtype = dtypeOf(tensor.scalar_type());
    shape.itemSize = static_cast<int>(tensor.dtype().itemsize());
    shape.onHost = tensor.device().is_cpu();
    if (tensor.layout() == at::kStrided) {
        shape.sizes.assign(tensor.sizes().begin(), tensor.sizes().end());
        shape.strides.assign(tensor.strides().begin(), tensor.strides().end());
    }
    return shape;
}

void addShapes(const at::Tensor& tensor, std::vector<TensorShape>& shapes)
{
    forEachDense(tensor, [&](const at::Tensor& dense) { shapes.push_back(tensorShapeOf(dense)); });
}

/// Longer lists belong to _foreach_ ops and fused optimizers; only the total size counts.
constexpr std::size_t mostTensors = 16;

std::uint8_t modesNow()
{
    const at::Context& context = at::globalContext();
    const bool matmul
        = context.float32Precision(at::Float32Backend::CUDA, at::Float32Op::MATMUL) == at::Float32Precision::TF32;
    const bool convolution
        = context.float32Precision(at::Float32Backend::CUDA, at::Float32Op::CONV) == at::Float32Precision::TF32;
    return static_cast<std::uint8_t>((matmul ? matmulTF32 : 0) | (convolution ? convolutionTF32 : 0)
                                     | (context.deterministicAlgorithms() ? deterministicKernels : 0));
}

bool isNumber(const at::Tensor& tensor)
{
    return tensor.unsafeGetTensorImpl()->is_wrapped_number();
}

void encodeList(SignatureEncoder& signature, const c10::IValue& value)
{
    std::vector<TensorShape> shapes;
    forEachTensor(value, [&](const at::Tensor& tensor) { addShapes(tensor, shapes); });
    if (shapes.size() <= mostTensors) {
        signature.beginTensors(shapes.size());
        for (const TensorShape& shape : shapes)
            signature.tensor(shape);
        return;
    }
    TensorShape together{{0}, {1}, shapes.front().dtype, shapes.front().itemSize, shapes.front().onHost};
    for (const TensorShape& shape : shapes)
        together.sizes[0] += transferBytes({&shape, 1}) / std::max(shape.itemSize, 1);
    signature.manyTensors(shapes.size(), together);
}

void encode(SignatureEncoder& signature, const c10::IValue& value)
{
    if (value.isTensor() && value.toTensor().defined() && value.toTensor().is_sparse()) {
        signature.beginTensors(2);
        return forEachDense(value.toTensor(), [&](const at::Tensor& dense) { signature.tensor(tensorShapeOf(dense)); });
    }
    if (value.isTensor() && value.toTensor().defined() && !isNumber(value.toTensor()))
        return signature.tensor(tensorShapeOf(value.toTensor()));
    if (isListOfTensors(value))
        return encodeList(signature, value);
    if (value.isInt() || value.isBool()) {
        const std::int64_t number = value.isInt() ? value.toInt() : value.toBool();
        return signature.integers({&number, 1});
    }
    if (value.isDouble()) {
        const std::int64_t isThere = value.toDouble() != 0;
        return signature.integers({&isThere, 1});
    }
    if (value.isIntList())
        return signature.integers(value.toIntVector());
    if (value.isBoolList()) {
        const auto list = value.toBoolList();
        return signature.integers(std::vector<std::int64_t>(list.begin(), list.end()));
    }
    signature.none();
}

} // namespace

DType dtypeOf(at::ScalarType type)
{
    constexpr auto dtypes = std::to_array<std::pair<at::ScalarType, DType>>({{at::kFloat, DType::float32},
                                                                             {at::kDouble, DType::float64},
                                                                             {at::kHalf, DType::float16},
                                                                             {at::kBFloat16, DType::bfloat16},
                                                                             {at::kFloat8_e4m3fn, DType::float8},
                                                                             {at::kFloat8_e5m2, DType::float8},
                                                                             {at::kFloat8_e4m3fnuz, DType::float8},
                                                                             {at::kFloat8_e5m2fnuz, DType::float8},
                                                                             {at::kLong, DType::int64},
                                                                             {at::kInt, DType::int32},
                                                                             {at::kShort, DType::int16},
                                                                             {at::kChar, DType::int8},
                                                                             {at::kByte, DType::uint8},
                                                                             {at::kBool, DType::boolean},
                                                                             {at::kComplexFloat, DType::complex64},
                                                                             {at::kComplexDouble, DType::complex128}});
    const auto* const found = std::ranges::find(dtypes, type, &std::pair<at::ScalarType, DType>::first);
    return found == dtypes.end() ? DType::other : found->second;
}

void OpCost::add(const c10::IValue& value)
{
    encode(signature_, value);
    forEachTensor(value, [&](const at::Tensor& tensor) {
        if (!isNumber(tensor))
            addShapes(tensor, shapes_);
    });
}

/// Adds headroom::opaque(name, reads, writes, flops). The written tensors count as results.
void OpCost::addOpaque(std::span<const c10::IValue> arguments)
{
    add(arguments[1]);
    inputCount_ = shapes_.size();
    signature_.results();
    add(arguments[2]);
}

void OpCost::addInputs(const OpFacts& facts, const torch::jit::Stack& stack)
{
    const std::size_t first = stack.size() - facts.arguments;
    signature_.setModes(modesNow());
    if (facts.kind == OpFacts::OpClass::opaque)
        return addOpaque(std::span(stack).subspan(first));
    for (std::size_t i = first; i < stack.size(); ++i)
        add(stack[i]);
    inputCount_ = shapes_.size();
    // convolution(input, weight, bias, stride, padding, dilation, transposed, …);
    // convolution_backward(grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed, …, mask)
    if (facts.kind == OpFacts::OpClass::convolution) {
        convolution_.transposed = stack[first + 6].toBool();
    } else if (facts.kind == OpFacts::OpClass::convolutionBackward) {
        convolution_.transposed = stack[first + 7].toBool();
        const auto mask = stack.back().toBoolList();
        convolution_.gradInput = mask.get(0);
        convolution_.gradWeight = mask.get(1);
    }
}

void OpCost::addOutputs(const OpFacts& facts, const torch::jit::Stack& stack)
{
    if (facts.kind == OpFacts::OpClass::opaque)
        return;
    signature_.results();
    for (std::size_t i = stack.size() - facts.returns; i < stack.size(); ++i) {
        encode(signature_, stack[i]);
        forEachTensor(stack[i], [&](const at::Tensor& tensor) { addShapes(tensor, shapes_); });
    }
}

DType OpCost::dtype() const noexcept
{
    return shapes_.size() > inputCount_ ? shapes_[inputCount_].dtype : DType::other;
}

double OpCost::flops(const OpFacts& facts) const
{
    if (given_ > 0 || facts.kind == OpFacts::OpClass::opaque)
        return given_;
    const std::span<const TensorShape> shapes(shapes_);
    return headroom::flops(facts.name, shapes.first(inputCount_), shapes.subspan(inputCount_), convolution_);
}

} // namespace headroom
