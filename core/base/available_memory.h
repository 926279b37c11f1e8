// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/bytes.h"

#include <cstdint>
#include <filesystem>
#include <string>

namespace headroom {

/// The number in the first line of a file that begins with `name`, as in files of /proc; 0: unknown.
std::uint64_t numberInFile(const std::filesystem::path& file, const std::string& name);

/// Returns the bytes that the control groups of this process leave free, as a container limits them; the largest number
/// without a limit. `root` holds the system's folders `proc` and `sys`.
std::uint64_t memoryLeftByControlGroups(const std::filesystem::path& root);

/// Bytes of host memory that programs can take: what the machine and the control groups have free, and memory that the
/// kernel gives back, as of files that were read; at least 1. 0: unknown.
Bytes availableMemory();

} // namespace headroom
