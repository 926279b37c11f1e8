// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace headroom {

/// Confines this process and all later threads, since a model file may attack the process. The process then reads only
/// the files in `readable`, libtorch's libraries and facts about the machine, writes only to files that are open
/// already, starts no program and contacts no process. `gpu`: NVIDIA's driver in this process may use the driver's
/// devices and read all files. Call this in the only thread, or after the driver started the driver's threads. Returns
/// the kernel's means in force, "Landlock" and "seccomp"; empty: none.
std::vector<std::string> confineProcess(const std::vector<std::filesystem::path>& readable, bool gpu);

/// Limits the memory of this process to what the machine and the control groups have free, so that a model that takes
/// more ends with an error before the system kills this or another program.
void limitMemory();

/// Returns what confineProcess() puts into force here, as tried by a separate process that fails to write a file.
/// Empty: nothing.
std::vector<std::string> confinementHere();

} // namespace headroom
