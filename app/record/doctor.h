// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/bytes.h"

#include <optional>
#include <string>
#include <vector>

namespace headroom {

/// A GPU that the CUDA driver reports.
struct GpuFound
{
    std::string name;
    Bytes memory = 0;
    int computeCapability = 0; ///< 80, 90, …
};

/// The machine's software and GPUs for recording a step. They are found at run time by dlopen: torch-headroom-record
/// runs, and simulates, on a machine without any of them.
struct MachineReport
{
    std::string torch; ///< version of the libtorch in use
    std::optional<int> cudaDriver; ///< highest CUDA version of the driver: 13000 is 13.0; nullopt: no libcuda.so.1
    std::optional<std::string> cupti; ///< name of the loaded library; nullopt: none
    std::vector<GpuFound> gpus;
    std::vector<std::string> advice; ///< one sentence for each missing part: what to do about it
};

MachineReport inspectMachine();

/// `torch-headroom-record doctor`: prints the report as text, or as JSON if `json`. Returns the exit code.
int runDoctor(bool json);

} // namespace headroom
