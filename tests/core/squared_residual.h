// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/sac/piecewise_fit.h"

#include <span>

namespace headroom {

/// Sum of squared differences between the function and the points.
inline double squaredResidual(const PiecewiseFit& fit, std::span<const double> x, std::span<const double> y)
{
    long double sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
        std::size_t segment = 0;
        while (segment + 1 < fit.slopes.size() && x[i] > fit.breakpoints[segment + 1])
            ++segment;
        const long double difference
            = static_cast<long double>(fit.slopes[segment]) * x[i] + fit.intercepts[segment] - y[i];
        sum += difference * difference;
    }
    return static_cast<double>(sum);
}

} // namespace headroom
