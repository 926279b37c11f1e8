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

/// A run of `python3 -m torch_headroom.record`.
struct Recording
{
    std::vector<std::string> arguments; ///< after `-m torch_headroom.record`
    std::vector<std::pair<std::string, std::string>> environment; ///< added to this process's environment
    std::filesystem::path output; ///< the step file; messages go into a file beside the step file
    std::string failure; ///< set by the run: the last line of the messages; empty: the step was written
};

/// Returns the number of recordings to run in parallel: each has a CPU core and 4 GiB of the free memory.
int recordingsAtOnce();

/// Runs the recordings, `jobs` in parallel, and sets `failure`. Calls `begins` at the begin of each recording. Error
/// (badInput): no Python has the package torch-headroom.
Status runRecordings(std::vector<Recording>& recordings, int jobs, const std::function<void(const Recording&)>& begins);

} // namespace headroom::cli
