// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"
#include "core/record/recorder.h"

#include <functional>
#include <string>

namespace headroom {

/// How the gradients of a model change if its step is run in another way, on a device that computes.
struct GradientComparison
{
    std::size_t parameters = 0; ///< number of parameters with a gradient
    double largestDifference = 0;
    std::string parameter; ///< parameter with the largest difference; empty if all gradients are bitwise equal
    /// Parameter whose gradient changes if the plain step runs twice from the same random numbers, as with some kernels
    /// on a GPU; the comparison then says nothing. Empty: none does, or all gradients were equal at once.
    std::string unrepeatable;

    bool equal() const { return parameter.empty(); }
};

/// Whether two tensors have the same sizes, element type and bits; a NaN equals itself.
bool equalToTheBit(const at::Tensor& a, const at::Tensor& b);

/// Runs `plainly` and `otherwise`, each from the same random numbers, and compares the gradients, which are then
/// removed. Each function runs forward and backward once. If the gradients differ, `plainly` runs a second time.
Result<GradientComparison> compareGradients(const ModelTree& tree, const std::function<Status()>& plainly,
                                            const std::function<Status()>& otherwise);

} // namespace headroom
