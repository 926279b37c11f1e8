// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"
#include "core/record/recorder.h"

#include <functional>
#include <string>

namespace headroom {

/// The differences between the gradients of two ways to run a model's step, on a device that computes.
struct GradientComparison
{
    std::size_t parameters = 0; ///< number of parameters with a gradient
    double largestDifference = 0;
    std::string parameter; ///< parameter with the largest difference; empty if all gradients are bitwise equal
    /// Parameter with a gradient that differs between two plain steps from the same random numbers, as with some
    /// kernels on a GPU; the comparison is then meaningless. Empty: there is none.
    std::string unrepeatable;

    bool equal() const { return parameter.empty(); }
};

/// Returns whether two tensors have the same sizes, element type and bits; a NaN equals itself.
bool equalToTheBit(const at::Tensor& a, const at::Tensor& b);

/// Runs `plainly` and `otherwise` from the same random numbers, compares the gradients and removes them. Each function
/// runs forward and backward once. If the gradients differ, `plainly` runs a second time.
/// Error: a run that fails.
Result<GradientComparison> compareGradients(const ModelTree& tree, const std::function<Status()>& plainly,
                                            const std::function<Status()>& otherwise);

} // namespace headroom
