// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"

#include <string>
#include <vector>

namespace headroom::cli {

/// Returns whether the arguments of `torch-headroom record` name a training script (`x.py`, `-m module`) before they
/// name a model (`demo:x`, `x.pt2`, `x.pt`). The options of either recorder are not known here.
bool namesScript(char** arguments);

/// Replaces this process by `program` with these arguments. Returns only on failure, which errno tells.
void become(const std::string& program, std::vector<std::string> arguments);

/// Replaces this process by `python3 -m torch_headroom.record` with these arguments, in the Python of the active
/// environment or of PATH. Returns only on failure, with one sentence that says what to install.
std::string becomePython(char** arguments);

/// Returns the path of the Python that becomePython() runs. Errors (badInput): there is none, or it lacks the package
/// torch-headroom.
Result<std::string> pythonWithPackage();

} // namespace headroom::cli
