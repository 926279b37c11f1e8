// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/device/partly_known.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>

namespace headroom::sim {

/// What the values of an op's results depend on, as its schema and tags say it. Arguments are bits by position.
struct OpTraits
{
    /// Ops in place whose values depend on nothing but numbers: random ones, which may start to fill a tensor, and
    /// those that initialisations (torch.nn.init) put after them.
    enum class Fills { no, normal, uniform, inPlace };
    /// Ops by which programs, and torch.isfinite and torch.isinf themselves, ask whether numbers are finite.
    enum class Asks { nothing, whetherEqual, whetherDifferent, whetherNan };

    /// The result is like an argument, but with one number everywhere; in the last case the second argument.
    enum class Filled { no, zeros, ones, asSaid };

    Fills fills = Fills::no;
    Asks asks = Asks::nothing;
    Filled filled = Filled::no;
    bool composite = false; ///< made of other ops, each of which is looked at by itself
    /// A library has registered a kernel for CUDA itself, which cannot run here, and one that says shapes. Ops that the
    /// same op is made of elsewhere would allocate what the kernel does not.
    bool shapesOnly = false;
    /// The CPU has a kernel, and its results follow from the arguments: no random numbers, no uninitialised memory.
    bool computable = false;
    bool returnsNumbers = false; ///< results, but no tensor among them: item(), equal()
    bool sizedByValues = false; ///< in a way that only the CPU's kernel finds out: unique, nms
    int chosen = -1; ///< the result that says which elements were chosen by their values: topk, argmax (even_choice.h)
    bool copies = false; ///< from the second tensor to the first, or the other way round
    bool isView = false; ///< all results are views of arguments
    bool keepsValues = false; ///< changes sizes or strides of its argument only
    bool checksGradients = false; ///< GradScaler's look for infinities, into its second argument
    bool wholeByCuda = false; ///< only CUDA's kernel takes whole numbers: histc, which counts the tokens of each expert
    Partly partly; ///< what is known of the result where the arguments are known in part
    std::uint64_t written = 0;
    std::uint64_t overwritten = 0; ///< of these, those whose old values are not read
};

/// Of an op as it was registered when it was first asked for.
const OpTraits& traitsOf(const c10::OperatorHandle& op);

} // namespace headroom::sim
