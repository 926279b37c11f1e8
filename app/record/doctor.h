// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/bytes.h"

#include <optional>
#include <string>
#include <vector>

namespace headroom {

/// A GPU as the CUDA driver names it.
struct GpuFound
{
    std::string name;
    Bytes memory = 0;
    int computeCapability = 0; ///< 80, 90, …
};

/// What this machine has for recording a step. Everything is looked for at run time by dlopen: torch-headroom-record
/// starts, and simulates, on a machine that has none of it.
struct MachineReport
{
    std::string torch; ///< version of the libtorch in use
    std::optional<int> cudaDriver; ///< highest CUDA that the driver supports: 13000 is 13.0; empty: no libcuda.so.1
    std::optional<std::string> cupti; ///< name of the library that was loaded; empty: none
    std::vector<GpuFound> gpus;
    std::vector<std::string> advice; ///< one sentence on what to do about each thing missing
};

MachineReport inspectMachine();

/// `torch-headroom-record doctor`: prints the report, as one JSON document when asked for. Returns the exit code.
int runDoctor(bool json);

} // namespace headroom
