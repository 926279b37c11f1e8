// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/bytes.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace headroom {

/// An index that the structures here keep as an int.
inline std::size_t at(int index)
{
    return static_cast<std::size_t>(index);
}

/// Bytes at a position that no path reaches.
inline constexpr Bytes unreachable = std::numeric_limits<Bytes>::max() / 4;

/// Time as an integer, in 1e-9 ms, so that sums in any order are equal.
using Picoseconds = std::int64_t;
Picoseconds picoseconds(double ms);
double milliseconds(Picoseconds time);

/// A checkpointing option of a part of the step: memory and recompute time.
struct ChainOption
{
    /// Bytes held while the part waits for backward, minus the bytes held in the recorded step; mostly negative.
    Bytes held = 0;
    /// Highest memory of the step while the part runs, forward or backward, if no other part is checkpointed.
    Bytes high = 0;
    Picoseconds time = 0; ///< recompute time
};

/// A part of the step: positions first to last - 1 of the chain, and the checkpointing options.
struct ChainArc
{
    int first = 0;
    int last = 0;
    std::vector<ChainOption> options;
};

/// An arc of a path and the option chosen for the arc, as indices.
struct ChainStep
{
    int arc = 0;
    int option = 0;
    bool operator==(const ChainStep&) const = default;
};
using ChainPath = std::vector<ChainStep>; ///< arcs in the order of the chain

/// The planner's problem as data. The parts of a step run in sequence in forward, and in reverse order in backward:
/// while a part runs, only the earlier parts hold saved tensors. A plan is a path of arcs from 0 to `positions`, with
/// an option for each arc. A plan fits a budget B if each arc has high + (sum of held of the arcs before) <= B, if
/// atBoundary + (sum of held of all arcs) <= B, and if constant <= B.
struct ChainProblem
{
    int positions = 0;
    std::vector<ChainArc> arcs; ///< sorted by first, then last; each position has its own arc
    Bytes atBoundary = 0; ///< highest recorded memory between forward and backward of the parts
    Bytes constant = 0; ///< highest memory at the events without an effect of any option
    /// By position: class number. Positions of the same class have arcs with options of equal `held` and `time`, in the
    /// same order, and no wider arc covers such positions. -1: a separate class.
    std::vector<int> classes;

    const ChainOption& option(const ChainStep& step) const { return arcs[at(step.arc)].options[at(step.option)]; }
};

struct ChainValue
{
    Picoseconds time = 0;
    Bytes peak = 0;
};
ChainValue valueOf(const ChainProblem& problem, const ChainPath& path);

/// The weighted mean of two problems that differ only in memory. A path that fits both problems fits the mean.
ChainProblem mixed(const ChainProblem& a, const ChainProblem& b, double shareOfB);

/// The path that holds least at the end, among the paths that fit the budget; empty if no path fits.
std::optional<ChainPath> minMemoryPath(const ChainProblem& problem, Bytes budget);

/// By arc, by option: whether the option's own memory constraint is redundant at every budget: a later constraint is
/// violated whenever the option's constraint is.
std::vector<std::vector<bool>> unboundOptions(const ChainProblem& problem);

/// The smallest budget that a path fits, exact to the byte.
Bytes leastBudget(const ChainProblem& problem);

} // namespace headroom
