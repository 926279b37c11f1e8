// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/bytes.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace headroom {

/// Time as a whole number, so that equal sums are equal: 1e-9 ms.
using Picoseconds = std::int64_t;
Picoseconds picoseconds(double ms);
double milliseconds(Picoseconds time);

/// One way to checkpoint a part of the step: what is kept of it, and what that takes.
struct ChainOption
{
    Bytes held = 0; ///< more (mostly: less) than recorded while the part waits for its backward
    Bytes high = 0; ///< highest memory of the step while the part itself runs, forward or backward, alone in this way
    Picoseconds time = 0; ///< of recomputation
};

/// A part of the step: positions first .. last - 1 of the chain, and the ways in which it can be checkpointed.
struct ChainArc
{
    int first = 0;
    int last = 0;
    std::vector<ChainOption> options;
};

/// The planner's problem as data. The parts of a step run one after the other, and backward in the opposite order:
/// while a part runs, only those before it hold something. So for a budget B a plan (a path of arcs from 0 to
/// `positions`, with an option each) fits when for each of its arcs: high + (held of all before) <= B, when
/// atLoss + (held of all) <= B, and when `constant` <= B.
struct ChainProblem
{
    int positions = 0;
    std::vector<ChainArc> arcs; ///< by first, then by last; each position has one of its own
    Bytes atLoss = 0; ///< highest memory between forward and backward of the parts, as recorded
    Bytes constant = 0; ///< highest memory where no part matters
    /// By position: equal for positions whose own arcs have options of equal `held` and `time`, one by one, and that no
    /// wider arc covers. -1: a class of its own.
    std::vector<int> classes;
};

/// An arc and its option.
struct ChainStep
{
    int arc = 0;
    int option = 0;
    bool operator==(const ChainStep&) const = default;
};
using ChainPath = std::vector<ChainStep>; ///< in the chain's order

struct ChainValue
{
    Picoseconds time = 0;
    Bytes peak = 0;
};
ChainValue valueOf(const ChainProblem& problem, const ChainPath& path);

/// The path that holds least, of those that fit; nothing when none does.
std::optional<ChainPath> leanestPath(const ChainProblem& problem, Bytes budget);

/// By arc, by option: whether the option's own row never decides, at any budget: where it is broken, another one is
/// broken after it.
std::vector<std::vector<bool>> unboundOptions(const ChainProblem& problem);

/// The smallest budget that a path fits, exactly.
Bytes leastBudget(const ChainProblem& problem);

} // namespace headroom
