// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"

#include <string>

namespace headroom::cli {

/// The arguments of `torch-headroom record` name a training script, or a module with -m: the first that is no option
/// and no option's value ends in .py. What comes after it belongs to the script.
bool namesScript(char** arguments);

/// Becomes `python3 -m torch_headroom.record` with these arguments, in the Python of the active environment or of PATH.
/// Returns only when it cannot, with one sentence that says what to install.
std::string becomePython(char** arguments);

/// The Python that becomePython() would become. Errors (badInput): it has no package torch-headroom, or there is none.
Result<std::string> pythonWithPackage();

} // namespace headroom::cli
