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

/// Returns indices in place of an op's choice among unknown values: a CPU tensor with the sizes and the type of the
/// op's result `chosen`. Within a row no element appears twice. Each row continues where the last row ended, so that
/// all elements are chosen equally often. The experts of a mixture then get equally many tokens, as in a training with
/// balanced routing.
at::Tensor evenChoice(const c10::OperatorHandle& op, std::span<const c10::IValue> arguments, const at::Tensor& chosen);

/// The rule by which elements of an op's result follow from partly known arguments. Logic is three-valued: `unknown |
/// true` is true.
struct Partly
{
    enum class Rule {
        no, ///< nothing is known of the result
        elementwise, ///< an element is known if all elements in its computation are known
        where, ///< where(condition, self, other): like elementwise, but elements that were not selected do not count
        fill, ///< masked_fill(self, mask, value)
        reduction, ///< an element is known if all elements in its reduction are known
        moves, ///< elements go from one place to another
    };
    /// An input element that alone determines the result, whatever the other elements are.
    enum class Decider { none, zero, nonzero, allBits };

    Rule rule = Rule::no;
    Decider decider = Decider::none; ///< of elementwise ops and reductions
    std::uint64_t places = 0; ///< bits of arguments that say where elements go: such arguments must be known entirely
};

Partly partlyOf(const c10::OperatorHandle& op);

/// Returns the unknown elements of the op's result, or of the written tensor, as a CPU tensor of flags. The flags can
/// be expanded to the sizes of the result. `arguments` are on the CPU, with zeros for unknown elements. `unknown`
/// holds, in place of each tensor, the flags of its unknown elements. Bits of `overwritten` mark arguments with unread
/// old values.
at::Tensor unknownElements(const c10::OperatorHandle& op, const Partly& partly, const torch::jit::Stack& arguments,
                           const torch::jit::Stack& unknown, std::uint64_t overwritten);

} // namespace headroom::sim
