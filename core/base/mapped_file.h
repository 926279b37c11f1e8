// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace headroom {

/// A regular file, open for reading. All input of Headroom is opened here: a pipe, a device, a socket or a folder would
/// be waited for or read without an end.
class InputFile
{
public:
    /// Opens a file of at most `most` bytes. Errors (badInput): the file does not exist, cannot be
    /// read, is no regular file, or is larger.
    static Result<InputFile> open(const std::filesystem::path& path,
                                  std::size_t most = std::numeric_limits<std::size_t>::max());

    InputFile(InputFile&& other) noexcept;
    InputFile& operator=(InputFile&&) = delete;
    ~InputFile();

    int descriptor() const noexcept { return file_; }
    std::size_t size() const noexcept { return size_; } ///< bytes at open()

    /// Reads the whole file. Errors (badInput): the file cannot be read, or has grown beyond the limit of open().
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

/// Tells two states of a file apart: another file under the name, another size, or a later write.
struct FileStamp
{
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    std::int64_t size = 0; ///< in bytes
    std::int64_t modifiedNs = 0;

    friend bool operator==(const FileStamp&, const FileStamp&) = default;
};
/// The stamp of the file at `path`; nullopt: there is none.
std::optional<FileStamp> stampOf(const std::filesystem::path& path);

/// The bytes of a file, read-only. Every object that refers to the bytes shares the ownership of the MappedFile.
///
/// Another program may change the file meanwhile. A file that is replaced (rename) does not matter: the old bytes stay.
/// A file that is written in place does:
/// - read() copies the bytes, so that they never change. For data that is checked once and then trusted.
/// - open() maps the file. Bytes that were cut off read as zeros, and others may differ from one access to the next.
///   For large files: the reader checks each byte taken, and calls unchanged() at the end.
class MappedFile
{
public:
    /// Maps the file. Errors (badInput): the file does not exist, cannot be read, or is not a regular file.
    static Result<std::shared_ptr<const MappedFile>> open(const std::filesystem::path& path);
    /// Copies the file into memory. Errors as for open(), and: the file changed during the reading.
    static Result<std::shared_ptr<const MappedFile>> read(const std::filesystem::path& path);

    ~MappedFile();
    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;

    std::span<const std::byte> bytes() const noexcept { return bytes_; } ///< begins at a page boundary
    /// The error (badInput) if the file was written to since open(): bytes read so far mean nothing.
    Status unchanged() const;

    /// Tells the kernel to read ahead, since the file is read once from front to back (madvise). After open() only.
    void readAhead() const noexcept;
    /// Releases this process's pages before `end` (madvise). A later access reads the pages from the file again. After
    /// open() only.
    void letGo(std::size_t end) const noexcept;

private:
    MappedFile(std::filesystem::path path, InputFile input);

    std::filesystem::path path_; ///< for messages
    std::optional<InputFile> input_; ///< nullopt after read()
    FileStamp stamp_; ///< at the time of open()
    std::span<const std::byte> bytes_;
    std::size_t guard_ = 0; ///< place in the list of guarded mappings
};

} // namespace headroom
