// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"
#include "core/trace/step_trace.h"

#include <filesystem>
#include <string>
#include <vector>

namespace headroom::cli {

/// Returns whether the arguments of `torch-headroom record` name a training script (`x.py`, `-m module`) before a model
/// (`demo:x`, `x.pt2`, `x.pt`). The options of either recorder are not known here.
bool namesScript(char** arguments);

/// Replaces this process by `program` with `arguments`. Returns only on failure, with the cause in errno.
void become(const std::string& program, std::vector<std::string> arguments);

/// Replaces this process by `python3 -m torch_headroom.record` with `arguments`, in the Python of the active
/// environment or of PATH. Returns only on failure, with a sentence that says what to install.
std::string becomePython(char** arguments);

/// Returns the path of the Python that becomePython() runs. Error (badInput): no Python, or a Python without the
/// package torch-headroom; the sentence says what to install.
Result<std::string> pythonWithPackage();

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

/// Returns the Python that runs the script of a step: `given`, or the interpreter that the step names. Error
/// (badInput): the step names a Python of no environment at hand, which only `given` may choose.
Result<std::string> pythonOfStep(const StepTrace& step, const std::string& stepFile, const std::string& given);

/// Runs the script that `step` was recorded from, by `python -m torch_headroom.record --policy`: with the recorded
/// command, in the recorded folder. What the script prints goes to stderr. Errors (badInput): the step cannot be
/// recorded again; the step names a Python of no environment at hand, which only `python` may choose; or the script's
/// failure in one sentence. Returns 0, or 128 + the number of the signal that ended the script.
Result<int> runScript(const StepTrace& step, const std::string& stepFile, const ScriptRun& run);

} // namespace headroom::cli
