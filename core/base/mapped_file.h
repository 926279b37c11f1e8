// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

namespace headroom {

/// A read-only mapping of a file. Every object that refers to its bytes shares the ownership of the MappedFile.
class MappedFile
{
public:
    /// Errors (badInput): the file does not exist, cannot be read, or is not a regular file.
    static Result<std::shared_ptr<const MappedFile>> open(const std::filesystem::path& path);

    ~MappedFile();
    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;

    std::span<const std::byte> bytes() const noexcept { return bytes_; } ///< begins at a page boundary

    /// Tells the kernel to read ahead, since the file is read once from front to back (madvise).
    void readAhead() const noexcept;
    /// Releases this process's pages before `end` (madvise). A later access reads them from the file again.
    void letGo(std::size_t end) const noexcept;

private:
    explicit MappedFile(std::span<const std::byte> bytes)
        : bytes_(bytes)
    {
    }
    std::span<const std::byte> bytes_;
};

} // namespace headroom
