// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"
#include "core/trace/step_trace.h"

#include <filesystem>
#include <string>

namespace headroom::cli {

/// A run of a recorded script under a policy, which records the same step again.
struct ScriptRun
{
    std::string python; ///< program; empty: the interpreter that the step names
    std::filesystem::path policy;
    std::filesystem::path output; ///< the step file to write
    bool progress = false; ///< JSON lines on stderr
};

/// Returns the command line of the program that the step was recorded from; empty: the step is of a model.
std::string programOf(const StepTrace& step);

/// Runs the script that `step` was recorded from, by `python -m torch_headroom.record --policy`: with the recorded
/// command, in the recorded folder. What the script prints goes to stderr. Errors (badInput): the step cannot be
/// recorded again; the step names a Python of no environment at hand, which only `python` may choose; or the script's
/// failure in one sentence.
Status runScript(const StepTrace& step, const std::string& stepFile, const ScriptRun& run);

} // namespace headroom::cli
