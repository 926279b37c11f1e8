// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace headroom {

/// Confines this process, all threads that it starts, and a model file that may attack it: it reads the files in
/// `readable`, libtorch's libraries and facts about the machine, and writes to files that are open already. It starts
/// no program and contacts no process. `gpu`: NVIDIA's driver, which runs in this process, may use its devices and read
/// all files. Call it in the only thread, or after the driver started its own. Returns what is in force: the names of
/// the kernel's means, "Landlock" and "seccomp"; empty: the kernel has none.
std::vector<std::string> confineProcess(const std::vector<std::filesystem::path>& readable, bool gpu);

/// Limits the memory of this process to what the machine and the control groups have free, so that a model that takes
/// more ends with an error before the system kills it or other programs.
void limitMemory();

/// Returns the bytes that the control groups of this process leave free, as a container limits them; the largest number
/// if they have no limit. `root` holds the system's folders `proc` and `sys`.
std::uint64_t memoryLeftByControlGroups(const std::filesystem::path& root);

/// Returns what confineProcess() puts into force here, as tried by a process of its own: it fails to write a file.
/// Empty: nothing.
std::vector<std::string> confinementHere();

} // namespace headroom
