// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"
#include "core/joint/ops_plan.h"

#include <filesystem>
#include <string_view>
#include <vector>

namespace headroom {

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
