// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// Convolution. Workspaces of cuDNN are not simulated: the size depends on the algorithm that cuDNN selects on the GPU.
#include "core/device/allocate.h"

#include <torch/library.h>

#include <array>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace headroom::sim {
namespace {

using at::Tensor;

/// Returns a convolution parameter, a number for all spatial dimensions or a number for each.
std::int64_t valueAt(c10::SymIntArrayRef values, std::size_t dimension)
{
    return number(values[values.size() == 1 ? 0 : dimension]);
}

/// Makes the checks of check_shape_forward() in aten/src/ATen/native/Convolution.cpp: without these checks, this kernel
/// would return wrong sizes.
void checkChannels(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias, bool transposed,
                   std::int64_t groups)
{
    TORCH_CHECK(groups > 0, "non-positive groups is not supported");
    TORCH_CHECK(weight.dim() == input.dim(), "Expected ", weight.dim(), "-dimensional input for ", weight.dim(),
                "-dimensional weight ", weight.sizes(), ", but got ", input.dim(), "-dimensional input of size ",
                input.sizes(), " instead");
    TORCH_CHECK(weight.size(0) >= groups, "Given groups=", groups, ", expected weight to be at least ", groups,
                " at dimension 0, but got weight of size ", weight.sizes(), " instead");
    TORCH_CHECK(weight.size(0) % groups == 0, "Given groups=", groups, ", expected weight to be divisible by ", groups,
                " at dimension 0, but got weight of size [", weight.sizes(), "] instead");
    const std::int64_t expected = transposed ? weight.size(0) : weight.size(1) * groups;
    TORCH_CHECK(input.size(1) == expected, "Given ", transposed ? "transposed=" : "groups=", transposed ? 1 : groups,
                ", weight of size ", weight.sizes(), ", expected input", input.sizes(), " to have ", expected,
                " channels, but got ", input.size(1), " channels instead");
    if (!bias || !bias->defined())
        return;
    const std::int64_t channels = transposed ? weight.size(1) * groups : weight.size(0);
    TORCH_CHECK(bias->dim() == 1 && bias->size(0) == channels, "Given ", transposed ? "transposed=1, " : "",
                "weight of size ", weight.sizes(), ", expected bias to be 1-dimensional with ", channels,
                " elements, but got bias of size ", bias->sizes(), " instead");
}

/// Makes the checks of check_input_same_type_as_parameters() in the same file. A type is a dtype on a device.
void checkTypes(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias)
{
    // An input on the CPU selects the kernel of oneDNN.
    const auto words = [&](const char* parameter) {
        return input.device().is_cpu() ? std::string(") should be the same or input should be a MKLDNN tensor and ")
                + parameter + " is a dense tensor"
                                       : std::string(") should be the same");
    };
    TORCH_CHECK(input.options().type_equal(weight.options()), "Input type (", input.toString(), ") and weight type (",
                weight.toString(), words("weight"));
    TORCH_CHECK(!at::isIntegralType(input.scalar_type(), /*includeBool=*/true),
                "getCudnnDataTypeFromScalarType() not supported for ", input.scalar_type());
    TORCH_CHECK(!bias || !bias->defined() || input.options().type_equal(bias->options()), "Input type (",
                input.toString(), ") and bias type (", bias->toString(), words("bias"));
}

Tensor convolution(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias,
                   c10::SymIntArrayRef stride, c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation,
                   bool transposed, c10::SymIntArrayRef outputPadding, c10::SymInt groups)
{
    checkChannels(input, weight, bias, transposed, number(groups));
    checkTypes(input, weight, bias);
    std::vector<std::int64_t> sizes{input.size(0), transposed ? weight.size(1) * number(groups) : weight.size(0)};
    for (std::int64_t dim = 2; dim < input.dim(); ++dim) {
        const auto i = static_cast<std::size_t>(dim - 2);
        const std::int64_t kernel = valueAt(dilation, i) * (weight.size(dim) - 1) + 1;
        if (transposed)
            sizes.push_back((input.size(dim) - 1) * valueAt(stride, i) - 2 * valueAt(padding, i) + kernel
                            + valueAt(outputPadding, i));
        else
            sizes.push_back((input.size(dim) + 2 * valueAt(padding, i) - kernel) / valueAt(stride, i) + 1);
    }
    at::MemoryFormat format = input.suggest_memory_format();
    if (format == at::MemoryFormat::Contiguous)
        format = weight.suggest_memory_format();
    return emptyTensor(sizes, input.scalar_type(), format);
}

/// The op of traces (torch.jit.trace), with the settings of cuDNN.
Tensor tracedConvolution(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias,
                         c10::SymIntArrayRef stride, c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation,
                         bool transposed, c10::SymIntArrayRef outputPadding, c10::SymInt groups, bool, bool, bool, bool)
{
    return convolution(input, weight, bias, stride, padding, dilation, transposed, outputPadding, std::move(groups));
}

std::tuple<Tensor, Tensor, Tensor> convolutionBackward(const Tensor& gradOutput, const Tensor& input,
                                                       const Tensor& weight, at::OptionalSymIntArrayRef,
                                                       c10::SymIntArrayRef, c10::SymIntArrayRef, c10::SymIntArrayRef,
                                                       bool, c10::SymIntArrayRef, c10::SymInt, std::array<bool, 3> mask)
{
    return {mask[0] ? emptyLike(input) : Tensor(), mask[1] ? emptyLike(weight) : Tensor(),
            mask[2] ? emptyTensor({gradOutput.size(1)}, gradOutput.scalar_type()) : Tensor()};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library)
{
    library.impl("convolution", convolution);
    library.impl("_convolution", tracedConvolution);
    library.impl("convolution_backward", convolutionBackward);
}

} // namespace
} // namespace headroom::sim
