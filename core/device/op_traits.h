// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/device/argument_checks.h"
#include "core/device/partly_known.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>

namespace headroom::sim {

/// Properties of an op, from its schema and tags, that decide the values of its results. Bit i of a mask stands for
/// argument i.
struct OpTraits
{
    /// Ops that may be deferred on the CPU: random ops (normal, uniform), which may begin a tensor's initialisation,
    /// and the elementwise ops, in place or with a new result, of torch.nn.init and of optimizers.
    enum class Fills { no, normal, uniform, inPlace, newResult };
    /// Comparisons by which programs, torch.isfinite and torch.isinf test whether numbers are finite.
    enum class Asks { nothing, whetherEqual, whetherDifferent, whetherNan };

    /// Ops like ones_like: the result holds a single number everywhere; with `asSaid` that number is the second
    /// argument.
    enum class Filled { no, zeros, ones, asSaid };

    Fills fills = Fills::no;
    Asks asks = Asks::nothing;
    Filled filled = Filled::no;
    bool composite = false; ///< decomposes into other ops; each of the parts is examined by itself
    /// Another library registered a kernel for CUDA, which cannot run here, and a Meta kernel for the shapes. The op's
    /// decomposition for other devices is not used: the parts would allocate what the CUDA kernel does not.
    bool shapesOnly = false;
    /// The CPU has a kernel for the op, and the results follow from the arguments: no random numbers, no uninitialised
    /// memory.
    bool computable = false;
    bool returnsNumbers = false; ///< returns values but no tensor: item(), equal()
    bool sizedByValues = false; ///< only the CPU's kernel can find the sizes of the results: unique, nms
    int chosen = -1; ///< index of the result that holds elements chosen by value: topk, argmax (partly_known.h)
    bool asksAll = false; ///< all(): programs assert properties of their data by this op
    bool copies = false; ///< copy_ (second tensor to first) or _copy_from (first to second)
    bool readsNothing = false; ///< takes only the sizes, the type or the place of a tensor
    bool isView = false; ///< all results are views of arguments
    bool keepsValues = false; ///< changes only the sizes or strides of the argument
    bool checksGradients = false; ///< GradScaler's check for infinities, which writes to the second argument
    bool ofOneNumber = false; ///< maps tensors of a single number to such a tensor: logical_not, any
    bool wholeByCuda = false; ///< only CUDA's kernel takes integers: histc, for the tokens of each expert
    DeviceCheck devices = DeviceCheck::none; ///< how CUDA's kernel checks that its tensors are on one device
    bool takesGenerator = false; ///< of random numbers
    TypeCheck types; ///< the dtypes that CUDA's kernel takes
    Partly partly; ///< how known elements of the arguments make elements of the result known
    std::uint64_t written = 0;
    std::uint64_t overwritten = 0; ///< subset of `written`: arguments with unread old values
};

/// Returns the traits of an op, read from the registration at the first call in this thread.
const OpTraits& traitsOf(const c10::OperatorHandle& op);

} // namespace headroom::sim
