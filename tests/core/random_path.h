// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/plan/chain_problem.h"

#include <random>
#include <vector>

namespace headroom {

/// Any way through the problem, with any option of each arc that has one.
inline ChainPath randomPath(const ChainProblem& problem, std::mt19937& random)
{
    ChainPath path;
    for (int position = 0; position < problem.positions;) {
        std::vector<int> arcs;
        for (std::size_t arc = 0; arc < problem.arcs.size(); ++arc)
            if (problem.arcs[arc].first == position && !problem.arcs[arc].options.empty())
                arcs.push_back(static_cast<int>(arc));
        const int arc = arcs[random() % arcs.size()];
        const ChainArc& chosen = problem.arcs[static_cast<std::size_t>(arc)];
        path.push_back({arc, static_cast<int>(random() % chosen.options.size())});
        position = chosen.last;
    }
    return path;
}

} // namespace headroom
