// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"

#include <cstddef>
#include <filesystem>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>

namespace headroom {

/// A regular file, open for reading. All input of Headroom is opened here: a pipe, a device, a socket or a folder would
/// be waited for or read without an end.
class InputFile
{
public:
    /// Opens a file of at most `most` bytes. Errors (badInput) in one sentence: the file does not exist, cannot be
    /// read, is no regular file, or is larger.
    static Result<InputFile> open(const std::filesystem::path& path,
                                  std::size_t most = std::numeric_limits<std::size_t>::max());

    InputFile(InputFile&& other) noexcept;
    InputFile& operator=(InputFile&&) = delete;
    ~InputFile();

    int descriptor() const noexcept { return file_; }
    std::size_t size() const noexcept { return size_; } ///< bytes when it was opened

    /// Reads the whole file. Errors (badInput): it cannot be read, or has grown beyond the limit of open().
    Result<std::string> text() const;

private:
    InputFile(std::filesystem::path path, std::size_t most)
        : path_(std::move(path))
        , most_(most)
    {
    }
    Error failure(int code) const;
    Error tooLarge() const;

    std::filesystem::path path_;
    std::size_t most_ = 0;
    std::size_t size_ = 0;
    int file_ = -1;
};

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
