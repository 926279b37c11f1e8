// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"
#include "core/joint/joint_graph.h"
#include "core/timeline/timeline.h"

#include <filesystem>
#include <memory>
#include <string_view>
#include <vector>

namespace headroom {

/// The solver that chooses the ops to save under the cap.
enum class OpsSolver : std::uint8_t { dp, greedy, ilp };

/// The unit for the cost of recomputing an op.
enum class OpsRuntime : std::uint8_t {
    flops, ///< the op's flops, at least 1, as PyTorch's default estimator
    measured, ///< the op's ms, from the trace or from OpsRequest::measuredMs
};

struct OpsRequest
{
    double fraction = 1; ///< of the default min-cut's bytes: 0 saves as little as possible, 1 what that saves
    OpsSolver solver = OpsSolver::dp;
    OpsRuntime runtime = OpsRuntime::flops;
    std::vector<double> measuredMs; ///< by op of the trace; empty: the trace's own ms
};

/// Ops recomputed together, at the same moment of backward.
struct Recomputation
{
    PackId pack; ///< the missing saved tensor that backward unpacks
    EventIndex unpack; ///< the trace's event of that unpack
    std::vector<OpId> ops; ///< ascending, in the order of execution
};

/// A plan for single ops of the whole step. An executor follows these rules:
///
/// - A saved value is held from the end of the value's last op in forward. Autograd's packs of the value stay
///   unchanged. After the packs, the executor holds the value until the last recomputation that reads the value.
/// - A pack of any other value that forward made holds nothing. An exception is a `kept` value of the graph: the
///   program holds the value anyway, and the packs stay unchanged.
/// - At the unpack of a missing tensor the ops of the recomputation run, in order. Each op is preceded by the views
///   between the op and its inputs. A random op starts from the op's generator state in forward. Storages that existed
///   before the step and that an op changes (running statistics) are restored.
/// - Each op is recomputed at most once. A recomputed value lives until the last use: the end of the last unpack that
///   returns the value, or the last op of a recomputation that reads the value, whichever comes later. A value without
///   uses dies at once.
struct OpsPlan
{
    double fraction = 1; ///< as requested; in a frontier, the fraction that this plan answers
    Bytes cap = 0; ///< limit of savedBytes
    std::vector<StorageId> saved; ///< held from forward to backward, without what the program holds; ascending
    std::vector<bool> dropped; ///< by pack of the trace: the pack holds nothing, the tensor is recomputed
    std::vector<OpId> recomputed; ///< recomputed ops; ascending
    std::vector<Recomputation> recomputations; ///< in the order of backward
    Bytes savedBytes = 0; ///< of `saved`
    double recomputeFlops = 0;
    double recomputeMs = 0;
    double cost = 0; ///< of the recomputed ops, in the unit of OpsRequest::runtime
    Bytes peak = 0; ///< of the step under the plan
};

/// A plan for ops as a file that another program can follow: what is saved, by the storages of the planned step.
/// `torch-headroom ops-plan --json` prints such a plan, with more fields.
struct SavedOps
{
    double fraction = 1;
    std::vector<StorageId> saved; ///< ascending
};

/// Writes a plan atomically. Error: the file cannot be written; the sentence names the file and the cause.
Status writeOpsPlan(const StepTrace& trace, const OpsPlan& plan, const std::filesystem::path& file);

/// Reads a plan. Error: not such a file, or a plan of a step other than `trace`; the sentence names the file and the
/// place.
Result<SavedOps> readOpsPlan(const std::filesystem::path& file, const StepTrace& trace);

/// Parses "dp", "greedy" or "ilp". Error: another name; the sentence lists the expected names.
Result<OpsSolver> parseOpsSolver(std::string_view name);
std::string_view opsSolverName(OpsSolver solver);

/// Parses "flops" or "measured". Error: another name; the sentence lists the expected names.
Result<OpsRuntime> parseOpsRuntime(std::string_view name);

/// Reads times of a step's ops for OpsRequest::measuredMs. `file` is a measured step file with the same ops in forward,
/// or a JSON list with the ms of each op of the step. Error: a simulated step, or a step or list with other ops; the
/// sentence names the file and the fault.
Result<std::vector<double>> readOpTimes(const std::filesystem::path& file, const StepTrace& trace);

} // namespace headroom
