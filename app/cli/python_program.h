// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"

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

} // namespace headroom::cli
