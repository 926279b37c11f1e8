// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace headroom {

/// A zip file whose records are stored as torch stores them, in one folder, without checksums.
inline std::string storedZip(const std::map<std::string, std::string>& records)
{
    const auto number = [](std::uint64_t value, int bytes) {
        std::string text;
        for (int i = 0; i < bytes; ++i)
            text += static_cast<char>(value >> (8 * i));
        return text;
    };
    std::string file;
    std::string directory;
    for (const auto& [name, content] : records) {
        const std::string path = "archive/" + name;
        const std::string common = number(0, 2) + number(0, 2) + number(0, 4) + number(0, 4) + number(content.size(), 4)
            + number(content.size(), 4) + number(path.size(), 2) + number(0, 2); // flags, stored, time, checksum, sizes
        directory += number(0x02014b50, 4) + number(20, 2) + number(20, 2) + common + number(0, 2) + number(0, 2)
            + number(0, 2) + number(0, 4) + number(file.size(), 4) + path;
        file += number(0x04034b50, 4) + number(20, 2) + common + path + content;
    }
    const std::string end = number(0x06054b50, 4) + number(0, 4) + number(records.size(), 2) + number(records.size(), 2)
        + number(directory.size(), 4) + number(file.size(), 4) + number(0, 2);
    return file + directory + end;
}

} // namespace headroom
