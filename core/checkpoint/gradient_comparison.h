// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"
#include "core/record/recorder.h"

#include <functional>
#include <string>

namespace headroom {

/// What another way to run a step does to the gradients of a model on the CPU.
struct GradientComparison
{
    std::size_t parameters = 0; ///< with a gradient
    double largestDifference = 0;
    std::string parameter; ///< where it is; empty when all gradients are equal to the bit

    bool equal() const { return parameter.empty(); }
};

/// Both run forward and backward once, from the same random numbers; the gradients are taken away afterwards.
Result<GradientComparison> compareGradients(const ModelTree& tree, const std::function<Status()>& plainly,
                                            const std::function<Status()>& otherwise);

} // namespace headroom
