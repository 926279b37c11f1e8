// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/checkpoint/gradient_comparison.h"

#include <nlohmann/json.hpp>

#include <string>

namespace headroom {

/// The object "gradients" of the JSON output of `torch-headroom-record verify`. `compared` null: not compared, `whyNot`
/// says why.
inline nlohmann::json gradientsJson(const GradientComparison* compared, const std::string& whyNot)
{
    if (!compared)
        return {{"compared", false}, {"reason", whyNot}};
    return {{"compared", true},
            {"parameters", compared->parameters},
            {"largest_difference", compared->largestDifference},
            {"parameter", compared->parameter},
            {"unrepeatable", compared->unrepeatable}};
}

} // namespace headroom
