// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/bytes.h"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace headroom {

/// The number in the first line of a file that begins with `name`, as in files of /proc; 0: unknown.
inline std::uint64_t numberInFile(const std::filesystem::path& file, const std::string& name)
{
    std::ifstream lines(file);
    for (std::string line; std::getline(lines, line);) {
        if (!line.starts_with(name))
            continue;
        std::uint64_t number = 0;
        std::istringstream(line.substr(name.size())) >> number;
        return number;
    }
    return 0;
}

/// Bytes of host memory that programs can take: free memory, and memory that the kernel gives back, as of files that
/// were read; 0: unknown.
inline Bytes availableMemory()
{
    return static_cast<Bytes>(numberInFile("/proc/meminfo", "MemAvailable:")) * KiB;
}

} // namespace headroom
