// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/cost/op_signature.h"
#include "core/record/op_facts.h"

#include <ATen/core/stack.h>

#include <span>
#include <vector>

namespace headroom {

DType dtypeOf(at::ScalarType type);

/// The shapes that a run of an op reads and writes, and the signature. Inputs are added before the run, outputs
/// afterwards. Tensors that stand for a number in the program (`x * 2.0`) count as numbers, as in PyTorch's accounting:
/// such tensors add no shape.
class OpCost
{
public:
    void addInputs(const OpFacts& facts, const torch::jit::Stack& stack);
    void addOutputs(const OpFacts& facts, const torch::jit::Stack& stack);

    bool hasTensorInput() const noexcept { return inputCount_ > 0; }
    DType dtype() const noexcept; ///< dtype of the first result
    Bytes bytes() const { return transferBytes(shapes_); }
    double flops(const OpFacts& facts) const;
    /// Sets the flops of opaque kernels that the op launched. Unless 0, `flops` replaces the formula in flops().
    void giveFlops(double flops) noexcept { given_ = flops; }
    std::span<const std::int64_t> signature() const noexcept { return signature_.values(); }

private:
    void add(const c10::IValue& value);
    void addOpaque(std::span<const c10::IValue> arguments);

    std::vector<TensorShape> shapes_; ///< inputs, then outputs
    std::size_t inputCount_ = 0;
    ConvolutionArguments convolution_;
    double given_ = 0;
    SignatureEncoder signature_;
};

} // namespace headroom
