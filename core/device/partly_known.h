// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstdint>

namespace headroom::sim {

/// Which elements of an op's result follow from arguments of which only some elements are known. Logic has three
/// values: `unknown | true` is true.
struct Partly
{
    enum class Rule {
        no, ///< nothing is known of the result
        elementwise, ///< an element is known where those are that it is made of
        where, ///< and those that were not chosen do not count: where(condition, self, other)
        fill, ///< masked_fill(self, mask, value)
        reduction, ///< known where all that is reduced is
        moves, ///< elements go from one place to another
    };
    /// An element by which the result is known, whatever the others are.
    enum class Decider { none, zero, nonzero, allBits };

    Rule rule = Rule::no;
    Decider decider = Decider::none; ///< of elementwise ops and reductions
    std::uint64_t places = 0; ///< arguments that say where elements are: all of them has to be known
};

Partly partlyOf(const c10::OperatorHandle& op);

/// Which elements of the op's result, or of what it writes to, are not known: a CPU tensor that may be expanded to its
/// sizes. `arguments` are on the CPU, with zeros where they are not known; `unknown` holds in the place of each tensor
/// of them which of its elements those are. Bits of `overwritten` are arguments whose old values are not read.
at::Tensor unknownElements(const c10::OperatorHandle& op, const Partly& partly, const torch::jit::Stack& arguments,
                           const torch::jit::Stack& unknown, std::uint64_t overwritten);

} // namespace headroom::sim
