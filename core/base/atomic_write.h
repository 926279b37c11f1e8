// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace headroom {

/// Whether commit() waits until the file is on disk.
enum class Durability {
    onDisk, ///< for a user's result: commit() waits for fsync(), so the file survives a loss of power
    inSystem, ///< for a file with checksums that can be made again: the kernel writes the file back later
};

/// A file that appears completely or not at all. The file is written without a name (O_TMPFILE), or under a temporary
/// name in the same folder; commit() moves the file to the path. The destructor removes a file that was not committed.
/// The new file has the permissions of the replaced file.
class AtomicFile
{
public:
    /// Errors (badInput) name the file and the operating system's reason: no such folder, read-only, …
    static Result<AtomicFile> create(const std::filesystem::path& path);

    AtomicFile(AtomicFile&& other) noexcept;
    AtomicFile& operator=(AtomicFile&&) = delete;
    ~AtomicFile();

    /// Appends `bytes`. Errors as for create(); also a full disk.
    Status write(std::span<const std::byte> bytes);
    Status commit(Durability durability = Durability::onDisk); ///< moves the file to the path; errors as for write()

private:
    AtomicFile() = default;
    void open();
    Error failure(int code) const;
    Status name();

    std::filesystem::path path_;
    std::string temporary_;
    bool named_ = false; ///< a file named temporary_ exists and has to be removed
    int file_ = -1;
};

/// Whether both paths lead to the same file, also by links.
bool isSameFile(const std::filesystem::path& a, const std::filesystem::path& b) noexcept;

/// Error (badInput): `output`, of the option -o, is the same file as an input of the command.
Status checkReplaced(const std::string& output, const std::string& input);

/// Writes `content` as an AtomicFile and commits the file (Durability::onDisk). Errors: as for AtomicFile.
Status writeAtomically(const std::filesystem::path& path, std::string_view content);

} // namespace headroom
