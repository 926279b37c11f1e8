// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace headroom {

/// The zip container of PyTorch's model files, mapped and not copied: torch stores its records without compression, so
/// a weight's bytes are the file's own. Every record lies in one folder, whose name is left out of theirs. Checksums
/// are not compared: torch.save may leave them out (torch.serialization.set_crc32_options).
class ZipArchive
{
public:
    /// Errors (badInput): not there, not a zip file, truncated.
    static Result<ZipArchive> open(const std::filesystem::path& path);
    /// Of bytes that `memory` keeps alive; `name` stands in messages.
    static Result<ZipArchive> read(std::span<const std::byte> bytes, std::string name,
                                   std::shared_ptr<const void> memory);

    const std::string& name() const { return name_; }
    bool contains(std::string_view record) const { return entries_.contains(record); }

    /// A record's bytes. Errors (badInput): no such record, or a compressed one.
    Result<std::span<const std::byte>> record(std::string_view record) const;

private:
    struct Entry
    {
        std::span<const std::byte> data;
        bool stored = true; ///< not compressed
    };
    class Directory;

    std::string name_;
    std::shared_ptr<const void> memory_;
    std::map<std::string, Entry, std::less<>> entries_; ///< by name inside the folder
};

} // namespace headroom
