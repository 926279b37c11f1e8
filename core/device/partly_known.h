// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <span>

namespace headroom::sim {

/// Returns the index of the result that holds elements chosen along a dimension by their values (topk, argmax, sort,
/// multinomial); -1 for other ops.
int chosenResult(const c10::OperatorHandle& op);

/// Returns indices in place of the choice of an op on unknown values: a CPU tensor with the sizes and the type of its
/// result `chosen`. Within a row no element appears twice, and each row continues where the last one ended, so
/// that all elements are chosen equally often. The experts of a mixture then get equally many tokens, as in a training
/// that balances them.
at::Tensor evenChoice(const c10::OperatorHandle& op, std::span<const c10::IValue> arguments, const at::Tensor& chosen);

/// The rule by which elements of an op's result follow from arguments of which only some elements are known. Logic is
/// three-valued: `unknown | true` is true.
struct Partly
{
    enum class Rule {
        no, ///< nothing is known of the result
        elementwise, ///< an element is known if all elements from which it is computed are known
        where, ///< where(condition, self, other): like elementwise, but elements that were not selected do not count
        fill, ///< masked_fill(self, mask, value)
        reduction, ///< an element is known if all elements that are reduced to it are known
        moves, ///< elements go from one place to another
    };
    /// An input element that alone determines the result, whatever the other elements are.
    enum class Decider { none, zero, nonzero, allBits };

    Rule rule = Rule::no;
    Decider decider = Decider::none; ///< of elementwise ops and reductions
    std::uint64_t places = 0; ///< bits of arguments that say where elements go: these must be known entirely
};

Partly partlyOf(const c10::OperatorHandle& op);

/// Returns which elements of the op's result, or of the tensor that it writes, are unknown: a CPU tensor of flags that
/// can be expanded to the sizes of that tensor. `arguments` are on the CPU, with zeros for unknown elements. `unknown`
/// holds, in place of each tensor, the flags of its unknown elements. Bits of `overwritten` mark arguments whose old
/// values are not read.
at::Tensor unknownElements(const c10::OperatorHandle& op, const Partly& partly, const torch::jit::Stack& arguments,
                           const torch::jit::Stack& unknown, std::uint64_t overwritten);

} // namespace headroom::sim
