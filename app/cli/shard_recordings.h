// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"

#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace headroom::cli {

/// One run of `python3 -m torch_headroom.record`.
struct Recording
{
    std::vector<std::string> arguments; ///< behind `-m torch_headroom.record`
    std::vector<std::pair<std::string, std::string>> environment; ///< beside this process's own
    std::filesystem::path output; ///< what it writes; its messages go into a file beside it
    std::string failure; ///< after the run: the last line of its messages; empty: it wrote the step
};

/// How many run at once so that each has a core and 4 GiB of the memory that is free.
int recordingsAtOnce();

/// Runs them, `jobs` at once, and fills in `failure`. `begins` is told of each. Errors (badInput): no Python that
/// records.
Status runRecordings(std::vector<Recording>& recordings, int jobs, const std::function<void(const Recording&)>& begins);

} // namespace headroom::cli
