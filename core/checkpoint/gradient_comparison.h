// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"
#include "core/record/recorder.h"

#include <functional>
#include <string>

namespace headroom {

/// What another way to run a step does to the gradients of a model on a device that computes.
struct GradientComparison
{
    std::size_t parameters = 0; ///< with a gradient
    double largestDifference = 0;
    std::string parameter; ///< where it is; empty when all gradients are equal to the bit
    /// Where the plain step, run twice from the same random numbers, does not give the same gradients, as on a GPU some
    /// kernels do not: the comparison then says nothing. Empty: it does, or nobody had to ask.
    std::string unrepeatable;

    bool equal() const { return parameter.empty(); }
};

/// Both run forward and backward once, from the same random numbers; the gradients are taken away afterwards. Where
/// they differ, `plainly` runs a second time.
Result<GradientComparison> compareGradients(const ModelTree& tree, const std::function<Status()>& plainly,
                                            const std::function<Status()>& otherwise);

} // namespace headroom
