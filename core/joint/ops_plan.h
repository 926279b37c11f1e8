// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/joint/joint_graph.h"
#include "core/timeline/timeline.h"

#include <memory>
#include <string_view>
#include <vector>

namespace headroom {

/// How the ops to save are chosen under the cap.
enum class OpsSolver : std::uint8_t { dp, greedy, ilp };

/// What running an op again costs.
enum class OpsRuntime : std::uint8_t {
    flops, ///< its flops, at least 1, as PyTorch's default estimator
    measured, ///< its ms: those of the trace, or of OpsRequest::measuredMs
};

struct OpsRequest
{
    double fraction = 1; ///< 0: only inputs are kept; 1: what the default min-cut keeps; between: that share of it
    OpsSolver solver = OpsSolver::dp;
    OpsRuntime runtime = OpsRuntime::flops;
    std::vector<double> measuredMs; ///< by op of the trace; empty: the trace's own ms
};

/// Ops that run again, all at one instant of backward.
struct Recomputation
{
    PackId pack; ///< the saved tensor that is asked for and not there
    EventIndex unpack; ///< of the trace: the unpack that asks
    std::vector<OpId> ops; ///< in this order; ascending
};

/// A plan for single ops of the whole step, and what an executor needs to follow it:
///
/// - A saved value is held from the end of its last op in forward. What autograd packed of it stays packed. Beyond
///   that the executor holds it until the last recomputation that reads it.
/// - A pack of any other value that forward made holds nothing (but one of a `kept` value of the graph, which the
///   program holds anyway, stays as it is).
/// - At the unpack of a tensor that is not there, the ops of its recomputation run, in order, each with the views
///   between it and what it reads. A random op starts from the state of the generator that it had in forward; storages
///   that were there before the step and that an op changes (running statistics) are put back.
/// - Each op runs again at most once. A value made again lives until its last use: the end of the last unpack that
///   hands it out, or the last op of a recomputation that reads it, whichever comes later; at once, where it has none.
struct OpsPlan
{
    double fraction = 1; ///< as asked; in a frontier the one that it is the answer for
    Bytes cap = 0; ///< of savedBytes
    std::vector<StorageId> saved; ///< held from forward to backward, without what the program holds anyway; ascending
    std::vector<bool> dropped; ///< by pack of the trace: it holds nothing, what it asks for is made again
    std::vector<OpId> recomputed; ///< ops that run again; ascending
    std::vector<Recomputation> recomputations; ///< in the order in which they happen
    Bytes savedBytes = 0; ///< of `saved`
    double recomputeFlops = 0;
    double recomputeMs = 0;
    double cost = 0; ///< of what runs again, in the unit of OpsRequest::runtime
    Bytes peak = 0; ///< of the step under the plan
};

} // namespace headroom
