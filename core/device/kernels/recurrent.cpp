// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// Recurrent networks as on CUDA: whole sequences by cuDNN (aten/src/ATen/native/cudnn/RNN.cpp), cells by the fused
// kernels of aten/src/ATen/native/cuda/RNN.cu.
#include "core/device/allocate.h"
#include "core/device/simulated_state.h"

#include <ATen/Context.h>
#include <ATen/ops/_cudnn_rnn.h>
#include <ATen/ops/gru_native.h>
#include <ATen/ops/lstm_native.h>
#include <ATen/ops/rnn_relu_native.h>
#include <ATen/ops/rnn_tanh_native.h>
#include <torch/library.h>

#include <array>
#include <optional>
#include <tuple>
#include <vector>

namespace headroom::sim {
namespace {

using at::Tensor;
using at::TensorList;
using OptionalTensor = std::optional<Tensor>;

/// cudnnRNNMode_t.
enum class Mode : std::int64_t { relu = 0, tanh = 1, lstm = 2, gru = 3 };

bool hasTensor(const OptionalTensor& tensor)
{
    return tensor.has_value() && tensor->defined();
}

/// Returns how many numbers cuDNN's reserve space holds for each step and hidden unit: the gates, the cell, and the
/// output of the layer. cuDNN does not publish the layout, so the number is an estimate.
std::int64_t reservedNumbers(Mode mode)
{
    switch (mode) {
    case Mode::lstm:
        return 4 + 1 + 1;
    case Mode::gru:
        return 3 + 1 + 1;
    default:
        return 1 + 1;
    }
}

/// The sizes of a call, for a whole sequence or a packed sequence with a shrinking batch.
struct Sequence
{
    std::int64_t batch = 0;
    std::int64_t steps = 0; ///< sum over all batches: the rows of the input
    std::vector<std::int64_t> outputSizes; ///< in the order of the kernel, steps first

    Sequence(const Tensor& input, c10::SymIntArrayRef batchSizes, bool batchFirst, std::int64_t width)
    {
        if (!batchSizes.empty()) {
            batch = number(batchSizes[0]);
            steps = input.size(0);
            outputSizes = {steps, width};
            return;
        }
        batch = input.size(batchFirst ? 0 : 1);
        const std::int64_t length = input.size(batchFirst ? 1 : 0);
        steps = batch * length;
        outputSizes = {length, batch, width};
    }
};

std::int64_t totalElements(TensorList tensors)
{
    std::int64_t total = 0;
    for (const Tensor& tensor : tensors)
        total += tensor.numel();
    return total;
}

/// Returns whether the weights are in a single buffer. Python flattens the weights of nn.LSTM in a move to a CUDA
/// device, but not to PrivateUse1: there all weights count as flat.
bool areFlat(const Tensor& input, TensorList weights)
{
    if (input.device().type() != c10::DeviceType::CUDA)
        return true;
    for (const Tensor& weight : weights) {
        if (!weight.storage().is_alias_of(weights[0].storage()))
            return false;
    }
    return true;
}

/// Returns a tensor on the storage of `whole`.
Tensor partOf(const Tensor& whole, at::IntArrayRef sizes, at::IntArrayRef strides, std::int64_t offset)
{
    auto impl = whole.unsafeGetTensorImpl()->shallow_copy_and_detach(c10::VariableVersion(0), false);
    impl->set_sizes_and_strides(sizes, strides, offset);
    return Tensor(std::move(impl));
}

/// Makes the checks of check_attributes() in aten/src/ATen/native/RNN.h.
void checkLike(const Tensor& input, const Tensor& other, const char* name)
{
    TORCH_CHECK(input.device() == other.device(), "Input and ", name,
                " tensors are not at the same device, found input tensor at ", input.device(), " and ", name,
                " tensor at ", other.device());
    TORCH_CHECK(input.scalar_type() == other.scalar_type(), "Input and ", name,
                " tensors are not the same dtype, found input tensor with ", input.scalar_type(), " and ", name,
                " tensor with ", other.scalar_type());
}

void checkAttributes(const Tensor& input, TensorList weights, const Tensor& hx, const OptionalTensor& cx)
{
    checkLike(input, hx, "hidden");
    if (hasTensor(cx))
        checkLike(input, *cx, "hidden");
    for (const Tensor& weight : weights)
        checkLike(input, weight, "parameter");
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor>
cudnnRnn(const Tensor& input, TensorList weights, std::int64_t, const OptionalTensor& weightBuffer, const Tensor& hx,
         const OptionalTensor& cx, std::int64_t mode, c10::SymInt hiddenSize, c10::SymInt projectedSize,
         std::int64_t layers, bool batchFirst, double, bool train, bool bidirectional, c10::SymIntArrayRef batchSizes,
         const OptionalTensor&)
{
    checkAttributes(input, weights, hx, cx);
    const std::int64_t directions = bidirectional ? 2 : 1;
    const std::int64_t hidden = number(hiddenSize);
    const std::int64_t out = number(projectedSize) != 0 ? number(projectedSize) : hidden;
    const Sequence sequence(input, batchSizes, batchFirst, out * directions);
    const bool transposed = batchFirst && batchSizes.empty();
    // The kernel needs the input with steps first.
    const Tensor steps
        = transposed ? emptyTensor({input.size(1), input.size(0), input.size(2)}, input.scalar_type()) : Tensor();
    Tensor output = emptyTensor(sequence.outputSizes, input.scalar_type());
    const Tensor hy = emptyTensor({layers * directions, sequence.batch, out}, hx.scalar_type());
    const Tensor cy = hasTensor(cx) ? emptyTensor({layers * directions, sequence.batch, hidden}, cx->scalar_type())
                                    : emptyTensor({0}, hx.scalar_type());
    Tensor buffer;
    if (hasTensor(weightBuffer))
        buffer = *weightBuffer;
    else if (!areFlat(input, weights))
        buffer = emptyTensor({totalElements(weights)}, input.scalar_type());
    else
        buffer = emptyTensor({0}, input.scalar_type());
    const std::int64_t numbers
        = reservedNumbers(static_cast<Mode>(mode)) * layers * directions * sequence.steps * hidden;
    const Tensor reserve
        = emptyTensor({train ? numbers * static_cast<std::int64_t>(input.element_size()) : 0}, at::kByte);
    if (transposed)
        output = partOf(output, {output.size(1), output.size(0), output.size(2)},
                        {output.stride(1), output.stride(0), output.stride(2)}, 0);
    return {output, hy, cy, reserve, buffer};
}

/// Returns the gradients of the weights, as views of a single buffer.
std::vector<Tensor> weightGradients(TensorList weights)
{
    const Tensor buffer = emptyTensor({totalElements(weights)}, weights[0].scalar_type());
    std::vector<Tensor> gradients;
    std::int64_t offset = 0;
    for (const Tensor& weight : weights) {
        gradients.push_back(partOf(buffer, weight.sizes(), weight.strides(), offset));
        offset += weight.numel();
    }
    return gradients;
}

std::tuple<Tensor, Tensor, Tensor, std::vector<Tensor>>
cudnnRnnBackward(const Tensor& input, TensorList weights, std::int64_t, const Tensor&, const Tensor& hx,
                 const OptionalTensor& cx, const Tensor& output, const OptionalTensor& gradOutput,
                 const OptionalTensor& gradHy, const OptionalTensor& gradCy, std::int64_t, c10::SymInt, c10::SymInt,
                 std::int64_t, bool batchFirst, double, bool, bool, c10::SymIntArrayRef batchSizes,
                 const OptionalTensor&, const Tensor&, std::array<bool, 4> mask)
{
    if (!hasTensor(gradOutput) && !hasTensor(gradHy) && !hasTensor(gradCy))
        return {Tensor(), Tensor(), Tensor(), std::vector<Tensor>(weights.size())};
    const Tensor zeroOutput = hasTensor(gradOutput) ? Tensor() : emptyContiguous(output);
    const Tensor zeroHy = hasTensor(gradHy) ? Tensor() : emptyContiguous(hx);
    const Tensor zeroCy = hasTensor(cx) && !hasTensor(gradCy) ? emptyContiguous(*cx) : Tensor();
    const bool transposed = batchFirst && batchSizes.empty();
    Tensor dx = transposed ? emptyTensor({input.size(1), input.size(0), input.size(2)}, input.scalar_type())
                           : emptyContiguous(input);
    if (transposed)
        dx = partOf(dx, input.sizes(), {dx.stride(1), dx.stride(0), dx.stride(2)}, 0);
    return {mask[0] ? dx : Tensor(), mask[1] ? emptyContiguous(hx) : Tensor(),
            mask[2] && hasTensor(cx) ? emptyContiguous(*cx) : Tensor(),
            mask[3] ? weightGradients(weights) : std::vector<Tensor>()};
}

/// Moves the parameters of a recurrent module into a single buffer. The parameters become views of the buffer.
Tensor flattenWeights(TensorList weights, std::int64_t, c10::SymInt, std::int64_t, c10::SymInt, c10::SymInt,
                      std::int64_t, bool, bool)
{
    const Tensor buffer = emptyTensor({totalElements(weights)}, weights[0].scalar_type());
    std::int64_t offset = 0;
    for (const Tensor& weight : weights) {
        c10::TensorImpl* impl = weight.unsafeGetTensorImpl();
        impl->set_storage_keep_dtype(buffer.storage());
        impl->set_sizes_and_strides(weight.sizes().vec(), weight.strides().vec(), offset);
        offset += weight.numel();
    }
    return buffer;
}

/// Makes the checks of use_cudnn() in aten/src/ATen/native/RNN.cpp, without the refusal of all devices but CUDA.
bool acceptable(const Tensor& input)
{
    const at::ScalarType type = input.scalar_type();
    const bool hasKernel = type == at::kFloat || type == at::kDouble || type == at::kHalf
        || (type == at::kBFloat16 && simulatedState().spec.computeCapability >= 80);
    return at::globalContext().userEnabledCuDNN() && hasKernel && input.numel() > 0;
}

/// Makes the call of CUDA's branch in at::lstm, at::gru and at::rnn_*.
std::tuple<Tensor, Tensor, Tensor> runSequence(Mode mode, const Tensor& input, c10::SymIntArrayRef batchSizes,
                                               const Tensor& hx, const OptionalTensor& cx, TensorList weights,
                                               bool hasBiases, std::int64_t layers, double dropout, bool train,
                                               bool bidirectional, bool batchFirst)
{
    const std::int64_t hidden = hasTensor(cx) ? cx->size(2) : hx.size(2);
    const std::int64_t projected = hidden != hx.size(2) ? hx.size(2) : 0;
    const std::int64_t weightsOfLayer = (hasBiases ? 4 : 2) + (projected != 0 ? 1 : 0);
    auto [output, hy, cy, reserve, buffer]
        = at::_cudnn_rnn_symint(input, weights, weightsOfLayer, std::nullopt, hx, cx, static_cast<std::int64_t>(mode),
                                hidden, projected, layers, batchFirst, dropout, train, bidirectional, batchSizes, {});
    return {output, hy, cy};
}

/// Returns the batch sizes of a packed sequence, stored in a CPU tensor.
std::vector<c10::SymInt> batchSizesOf(const Tensor& batchSizes)
{
    const auto* sizes = batchSizes.const_data_ptr<std::int64_t>();
    return {sizes, sizes + batchSizes.size(0)};
}

std::tuple<Tensor, Tensor, Tensor> lstm(const Tensor& input, TensorList hx, TensorList weights, bool hasBiases,
                                        std::int64_t layers, double dropout, bool train, bool bidirectional,
                                        bool batchFirst)
{
    if (!acceptable(input))
        return at::native::lstm(input, hx, weights, hasBiases, layers, dropout, train, bidirectional, batchFirst);
    TORCH_CHECK(hx.size() == 2, "lstm expects two hidden states");
    return runSequence(Mode::lstm, input, {}, hx[0], hx[1], weights, hasBiases, layers, dropout, train, bidirectional,
                       batchFirst);
}

std::tuple<Tensor, Tensor, Tensor> packedLstm(const Tensor& data, const Tensor& batchSizes, TensorList hx,
                                              TensorList weights, bool hasBiases, std::int64_t layers, double dropout,
                                              bool train, bool bidirectional)
{
    if (!acceptable(data))
        return at::native::lstm(data, batchSizes, hx, weights, hasBiases, layers, dropout, train, bidirectional);
    TORCH_CHECK(hx.size() == 2, "lstm expects two hidden states");
    return runSequence(Mode::lstm, data, batchSizesOf(batchSizes), hx[0], hx[1], weights, hasBiases, layers, dropout,
                       train, bidirectional, false);
}

using OneHidden = std::tuple<Tensor, Tensor> (*)(const Tensor&, const Tensor&, TensorList, bool, std::int64_t, double,
                                                 bool, bool, bool);
using PackedOneHidden = std::tuple<Tensor, Tensor> (*)(const Tensor&, const Tensor&, const Tensor&, TensorList, bool,
                                                       std::int64_t, double, bool, bool);

template <Mode mode, OneHidden composite>
std::tuple<Tensor, Tensor> sequence(const Tensor& input, const Tensor& hx, TensorList weights, bool hasBiases,
                                    std::int64_t layers, double dropout, bool train, bool bidirectional,
                                    bool batchFirst)
{
    if (!acceptable(input))
        return composite(input, hx, weights, hasBiases, layers, dropout, train, bidirectional, batchFirst);
    auto [output, hy, cy] = runSequence(mode, input, {}, hx, std::nullopt, weights, hasBiases, layers, dropout, train,
                                        bidirectional, batchFirst);
    return {output, hy};
}

template <Mode mode, PackedOneHidden composite>
std::tuple<Tensor, Tensor> packedSequence(const Tensor& data, const Tensor& batchSizes, const Tensor& hx,
                                          TensorList weights, bool hasBiases, std::int64_t layers, double dropout,
                                          bool train, bool bidirectional)
{
    if (!acceptable(data))
        return composite(data, batchSizes, hx, weights, hasBiases, layers, dropout, train, bidirectional);
    auto [output, hy, cy] = runSequence(mode, data, batchSizesOf(batchSizes), hx, std::nullopt, weights, hasBiases,
                                        layers, dropout, train, bidirectional, false);
    return {output, hy};
}

void composites(torch::Library& library)
{
    library.impl("lstm.input", lstm);
    library.impl("lstm.data", packedLstm);
    library.impl("gru.input", sequence<Mode::gru, at::native::gru>);
    library.impl("gru.data", packedSequence<Mode::gru, at::native::gru>);
    library.impl("rnn_tanh.input", sequence<Mode::tanh, at::native::rnn_tanh>);
    library.impl("rnn_tanh.data", packedSequence<Mode::tanh, at::native::rnn_tanh>);
    library.impl("rnn_relu.input", sequence<Mode::relu, at::native::rnn_relu>);
    library.impl("rnn_relu.data", packedSequence<Mode::relu, at::native::rnn_relu>);
}

std::tuple<Tensor, Tensor, Tensor> lstmCell(const Tensor& inputGates, const Tensor&, const Tensor& cx,
                                            const OptionalTensor&, const OptionalTensor&)
{
    return {emptyContiguous(cx), emptyContiguous(cx), emptyContiguous(inputGates)};
}

std::tuple<Tensor, Tensor, Tensor> lstmCellBackward(const OptionalTensor& gradHy, const OptionalTensor& gradCy,
                                                    const Tensor& cx, const Tensor&, const Tensor& workspace,
                                                    bool hasBias)
{
    if (!hasTensor(gradHy) && !hasTensor(gradCy))
        return {Tensor(), Tensor(), Tensor()};
    return {emptyContiguous(workspace), emptyContiguous(cx),
            hasBias ? emptyTensor({workspace.size(1)}, workspace.scalar_type()) : Tensor()};
}

constexpr std::int64_t gruGates = 3;
constexpr std::int64_t gruSaved = 5; ///< numbers that the fused cell keeps for each hidden unit

std::tuple<Tensor, Tensor> gruCell(const Tensor&, const Tensor&, const Tensor& hx, const OptionalTensor&,
                                   const OptionalTensor&)
{
    const Tensor workspace = emptyTensor({hx.size(0), hx.size(1) * gruSaved}, hx.scalar_type());
    return {emptyContiguous(hx), workspace};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gruCellBackward(const Tensor& gradHy, const Tensor& workspace,
                                                                   bool hasBias)
{
    const at::ScalarType type = workspace.scalar_type();
    const std::int64_t width = workspace.size(1) / gruSaved * gruGates;
    const auto bias = [&] { return hasBias ? emptyTensor({width}, type) : Tensor(); };
    const Tensor inputGates = emptyTensor({workspace.size(0), width}, type);
    const Tensor hiddenGates = emptyTensor({workspace.size(0), width}, type);
    const Tensor gradHx = emptyContiguous(gradHy);
    return {inputGates, hiddenGates, gradHx, bias(), bias()};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library)
{
    library.impl("_cudnn_rnn", cudnnRnn);
    library.impl("_cudnn_rnn_backward", cudnnRnnBackward);
    library.impl("_cudnn_rnn_flatten_weight", flattenWeights);
    library.impl("_thnn_fused_lstm_cell", lstmCell);
    library.impl("_thnn_fused_lstm_cell_backward_impl", lstmCellBackward);
    library.impl("_thnn_fused_gru_cell", gruCell);
    library.impl("_thnn_fused_gru_cell_backward", gruCellBackward);
    composites(library);
}

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, library)
{
    composites(library);
}

} // namespace
} // namespace headroom::sim
