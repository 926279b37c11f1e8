// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/joint/joint_graph.h"
#include "core/timeline/timeline.h"

#include <memory>
#include <string_view>
#include <vector>

namespace headroom {

/// The solver that chooses the ops to save under the cap.
enum class OpsSolver : std::uint8_t { dp, greedy, ilp };

/// The unit for the cost of running an op again.
enum class OpsRuntime : std::uint8_t {
    flops, ///< its flops, at least 1, as PyTorch's default estimator
    measured, ///< its ms, from the trace or from OpsRequest::measuredMs
};

struct OpsRequest
{
    double fraction = 1; ///< of the default min-cut's bytes: 0 saves only inputs, 1 saves what that saves
    OpsSolver solver = OpsSolver::dp;
    OpsRuntime runtime = OpsRuntime::flops;
    std::vector<double> measuredMs; ///< by op of the trace; empty: the trace's own ms
};

/// Ops that run again, all at one moment of backward.
struct Recomputation
{
    PackId pack; ///< the missing saved tensor that backward unpacks
    EventIndex unpack; ///< the trace's event of that unpack
    std::vector<OpId> ops; ///< ascending, which is their order
};

/// A plan for single ops of the whole step. An executor follows these rules:
///
/// - A saved value is held from the end of its last op in forward. Autograd's packs of it stay as they are. After that
///   the executor holds it until the last recomputation that reads it.
/// - A pack of any other value that forward made holds nothing. An exception is a `kept` value of the graph, which the
///   program holds anyway: its packs stay as they are.
/// - At the unpack of a missing tensor the ops of its recomputation run, in order, each with the views between it and
///   what it reads. A random op starts from its generator state in forward. Storages that existed before the step and
///   that an op changes (running statistics) are restored.
/// - Each op runs again at most once. A recomputed value lives until its last use: the end of the last unpack that
///   returns it, or the last op of a recomputation that reads it, whichever comes later. A value without uses dies at
///   once.
struct OpsPlan
{
    double fraction = 1; ///< as requested; in a frontier, the fraction that this plan answers
    Bytes cap = 0; ///< limit of savedBytes
    std::vector<StorageId> saved; ///< held from forward to backward, without what the program holds; ascending
    std::vector<bool> dropped; ///< by pack of the trace: it holds nothing, its tensor is recomputed
    std::vector<OpId> recomputed; ///< ops that run again; ascending
    std::vector<Recomputation> recomputations; ///< in the order of backward
    Bytes savedBytes = 0; ///< of `saved`
    double recomputeFlops = 0;
    double recomputeMs = 0;
    double cost = 0; ///< of the recomputed ops, in the unit of OpsRequest::runtime
    Bytes peak = 0; ///< of the step under the plan
};

} // namespace headroom
