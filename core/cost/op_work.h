// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/cost/op_signature.h"

#include <cstdint>
#include <string_view>

namespace headroom {

/// The class of an op's kernels, which selects the formula and the constants of the time model.
enum class WorkClass : std::uint8_t {
    none, ///< views and allocations: no kernel
    pointwise,
    copy, ///< between layouts or element types, or of tensors that are concatenated
    fill,
    transfer, ///< between the host and the device
    reduction,
    scan,
    softmax,
    softmaxBackward,
    layerNorm,
    layerNormBackward,
    batchNorm,
    batchNormBackward,
    groupNorm,
    groupNormBackward,
    matmul,
    convolution,
    convolutionBackward,
    attention,
    attentionBackward,
    embedding, ///< gathers rows
    embeddingBackward,
    index, ///< gathers or scatters elements
    pool,
    poolBackward,
    foreach, ///< a pass over a list of tensors, as in optimizers
    sort,
    opaque, ///< an op of another library: only bytes and flops are known
};
inline constexpr std::size_t workClassCount = 28;
std::string_view workClassName(WorkClass work); ///< "pointwise", "softmax_backward", … as in JSON

/// A batched matrix product of [m, k] and [k, n], or a convolution as one.
struct MatrixProduct
{
    double batch = 1;
    double m = 0;
    double n = 0;
    double k = 0;
    int alignment = 16; ///< alignment in bytes of the rows of all matrices, at most 16

    double flops() const noexcept { return 2 * batch * m * n * k; }
};

struct ConvolutionWork
{
    double groups = 1;
    double inputChannels = 0; ///< of a group
    double outputChannels = 0; ///< of a group
    double outputPoints = 0; ///< of the whole batch
    double inputPoints = 0;
    double kernelPoints = 0;
    bool channelsLast = false;
    bool bias = false; ///< added by a separate kernel, as PyTorch does after cuDNN
    bool gradInput = false;
    bool gradWeight = false;
    bool gradBias = false;
    double inputBytes = 0;
    double outputBytes = 0;
    double weightBytes = 0;
};

struct AttentionWork
{
    enum class Kernel : std::uint8_t { flash, efficient, cudnn };
    Kernel kernel = Kernel::flash;
    double batchHeads = 0;
    double query = 0; ///< sequence length of the queries
    double key = 0;
    double width = 0; ///< head dimension
    bool causal = false;
};

/// The work of an op, independent of the GPU: the input of the time model. Bytes count each element once, and
/// dimensions of stride 0 once. Flops count a multiply-add as two, and are exact for grouped convolutions and for
/// causal attention.
struct OpWork
{
    WorkClass kind = WorkClass::none;
    DType dtype = DType::float32; ///< of the operands; selects the peak rate
    std::uint8_t modes = 0; ///< OpMode
    double read = 0; ///< bytes
    double written = 0;
    double flops = 0;
    double kernels = 1; ///< launches
    double tensors = 0; ///< number of tensors in the op's lists
    double rows = 0; ///< of softmax, norms, reductions
    double columns = 0;
    bool toHost = false; ///< a transfer to the host
    bool waits = false; ///< a transfer that the CPU waits for
    bool innermost = true; ///< elements of a row are adjacent in memory
    bool halfWeights = false; ///< batch norm with 2-byte weights: cuDNN takes float32 only, PyTorch's kernels run
    /// Tensors of equal sizes have different memory layouts, or a tensor is repeated: elements are loaded singly.
    bool strided = false;
    double repeated = 0; ///< bytes of the largest operand that a pass reads from its begin again and again
    double repeats = 1; ///< number of reads of the operand in the pass
    MatrixProduct product;
    ConvolutionWork convolution;
    AttentionWork attention;
};

/// The work of an op. `op` is the name of an OpOverload as PyTorch prints it, or of its packet ("aten.addmm"); `flags`
/// are OpFlag. An op of another library is opaque and has the given `flops`.
OpWork workOf(std::string_view op, const OpSignature& signature, std::uint16_t flags, double flops);

/// Number of elements of a tensor, including repeats by expanded dimensions.
double numel(const TensorShape& tensor);

/// The class of an op's kernels, from a table of names, or from the shapes for names outside the table. `packet` is
/// the name without the overload ("aten.addmm"); `flags` are OpFlag.
WorkClass workClassOf(std::string_view packet, const OpSignature& signature, std::uint16_t flags);

} // namespace headroom
