// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

namespace headroom {

/// A file's bytes, read by the kernel when they are touched. Shared: the owner of a view into it also
/// holds the file.
class MappedFile
{
public:
    /// Errors (badInput): not there, not readable, not a regular file.
    static Result<std::shared_ptr<const MappedFile>> open(const std::filesystem::path& path);

    ~MappedFile();
    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;

    std::span<const std::byte> bytes() const noexcept { return bytes_; } ///< starts at a page

    /// The file will be read once, from front to back: the kernel reads ahead.
    void readAhead() const noexcept;
    /// What lies before `end` will hardly be touched again: its pages leave this process, and come back when they are.
    void letGo(std::size_t end) const noexcept;

private:
    explicit MappedFile(std::span<const std::byte> bytes)
        : bytes_(bytes)
    {
    }
    std::span<const std::byte> bytes_;
};

} // namespace headroom
