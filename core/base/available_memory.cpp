// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/base/available_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>

namespace headroom {

namespace fs = std::filesystem;

std::uint64_t numberInFile(const fs::path& file, const std::string& name)
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

namespace {

constexpr std::uint64_t unlimitedMemory = std::numeric_limits<std::uint64_t>::max();

/// Names of the files of a control group that tell the group's memory.
struct MemoryFiles
{
    const char* limit;
    const char* usage;
    const char* inactiveFile; ///< in memory.stat: the cache of files, which the kernel gives back
};
constexpr MemoryFiles ofVersion1{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "};
constexpr MemoryFiles ofVersion2{"memory.max", "memory.current", "inactive_file "};

/// Returns what the control group in `folder` and the groups around `folder`, up to `root`, leave free. A container
/// sees only the innermost group, as the root, and may not see the container's own path.
std::uint64_t freeOfGroups(const fs::path& root, const fs::path& path, const MemoryFiles& files)
{
    std::uint64_t free = unlimitedMemory;
    for (fs::path group = path.relative_path();; group = group.parent_path()) {
        const fs::path folder = root / group;
        std::uint64_t limit = 0;
        std::uint64_t usage = 0;
        if (std::ifstream(folder / files.limit) >> limit) { // version 2 says "max" where there is none
            std::ifstream(folder / files.usage) >> usage;
            const std::uint64_t taken
                = usage - std::min(usage, numberInFile(folder / "memory.stat", files.inactiveFile));
            free = std::min(free, limit - std::min(limit, taken));
        }
        if (group.empty())
            return free;
    }
}

} // namespace

std::uint64_t memoryLeftByControlGroups(const fs::path& root)
{
    std::uint64_t free = unlimitedMemory;
    std::ifstream groups(root / "proc/self/cgroup");
    for (std::string line; std::getline(groups, line);) { // number:controllers:path
        const std::size_t controllers = line.find(':') + 1;
        const std::size_t path = line.find(':', controllers) + 1;
        if (controllers == 0 || path == 0)
            continue;
        const std::string names = ',' + line.substr(controllers, path - 1 - controllers) + ',';
        const fs::path folder = root / "sys/fs/cgroup";
        if (names == ",,")
            free = std::min(free, freeOfGroups(folder, line.substr(path), ofVersion2));
        else if (names.find(",memory,") != std::string::npos)
            free = std::min(free, freeOfGroups(folder / "memory", line.substr(path), ofVersion1));
    }
    return free;
}

Bytes availableMemory()
{
    const std::uint64_t ofMachine = numberInFile("/proc/meminfo", "MemAvailable:") * KiB;
    if (ofMachine == 0)
        return 0;
    return static_cast<Bytes>(std::max<std::uint64_t>(1, std::min(ofMachine, memoryLeftByControlGroups("/"))));
}

} // namespace headroom
