// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/cost/op_signature.h"

#include <cstdint>
#include <string_view>

namespace headroom {

/// What kind of kernels an op runs: which formula and constants of the time model it takes.
enum class WorkClass : std::uint8_t {
    none, ///< views and allocations: no kernel
    pointwise,
    copy, ///< between layouts, element types, or tensors that are joined
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
    foreach, ///< one pass over a list of tensors: optimizers
    sort,
    opaque, ///< another library's op: only its bytes and flops are known
};
inline constexpr std::size_t workClassCount = 28;
std::string_view workClassName(WorkClass work); ///< "pointwise", "softmax_backward", … as in JSON

/// A matrix product of `batch` pairs [m, k] and [k, n], or what a convolution is as one.
struct MatrixProduct
{
    double batch = 1;
    double m = 0;
    double n = 0;
    double k = 0;
    int alignment = 16; ///< bytes at whose multiples the rows of all matrices start, at most 16

    double flops() const noexcept { return 2 * batch * m * n * k; }
};

struct ConvolutionWork
{
    double groups = 1;
    double inputChannels = 0; ///< of one group
    double outputChannels = 0; ///< of one group
    double outputPoints = 0; ///< of the whole batch
    double inputPoints = 0;
    double kernelPoints = 0;
    bool channelsLast = false;
    bool strideIsKernel = false; ///< patches that do not overlap
    bool bias = false; ///< added by a pass of its own, as PyTorch does after cuDNN
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
    double query = 0; ///< lengths
    double key = 0;
    double width = 0; ///< of a head
    bool causal = false;
    bool masked = false;
    bool dropout = false;
};

/// What an op does, whatever the card: all that its time depends on. Bytes are those that must be read and written
/// once, dimensions of stride 0 counted once; flops count a multiply-add as two, and are right for grouped convolutions
/// and for what attention skips under a causal mask.
struct OpWork
{
    WorkClass kind = WorkClass::none;
    DType dtype = DType::float32; ///< of the operands: what decides the peak rate
    std::uint8_t modes = 0; ///< OpMode
    double read = 0; ///< bytes
    double written = 0;
    double flops = 0;
    double kernels = 1; ///< launches
    double tensors = 0; ///< of the lists that the op goes over
    double rows = 0; ///< of softmax, norms, reductions
    double columns = 0;
    bool toHost = false; ///< of a transfer
    bool waits = false; ///< of a transfer: the CPU waits until it is done
    bool innermost = true; ///< a row's elements lie beside each other
    bool halfWeights = false; ///< of batch norm: cuDNN takes float32 ones alone, PyTorch's own kernels run
    bool strided = false; ///< tensors lie in memory in different orders, or one is repeated: loaded one by one
    double repeated = 0; ///< bytes of the largest operand that a pass reads from its begin again and again
    double repeats = 1; ///< how often
    MatrixProduct product;
    ConvolutionWork convolution;
    AttentionWork attention;
};

/// `op` as PyTorch prints an OpOverload, or a packet ("aten.addmm"). `flags` are OpFlag. An op of another library is
/// opaque: `flops` are what is known of it.
OpWork workOf(std::string_view op, const OpSignature& signature, std::uint16_t flags, double flops);

} // namespace headroom
