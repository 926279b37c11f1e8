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

/// What commit() waits for.
enum class Durability {
    onDisk, ///< what somebody decided: a loss of power after commit() does not take it away
    inSystem, ///< what can be made again and tells when it is damaged: the system writes it when it finds the time
};

/// A file that appears whole or not at all: written without a name, or under another one beside its place, and moved
/// there by commit(). What was not committed is removed with the object. A file that was there before keeps its
/// permissions.
class AtomicFile
{
public:
    /// Errors (badInput) name the file and the system's reason: no such folder, read-only, …
    static Result<AtomicFile> create(const std::filesystem::path& path);

    AtomicFile(AtomicFile&& other) noexcept;
    AtomicFile& operator=(AtomicFile&&) = delete;
    ~AtomicFile();

    Status write(std::span<const std::byte> bytes);
    Status commit(Durability durability = Durability::onDisk); ///< in its place when it returns without an error

private:
    AtomicFile() = default;
    void open();
    Error failure(int code) const;
    Status name();

    std::filesystem::path path_;
    std::string temporary_;
    bool named_ = false; ///< temporary_ is there, and to be removed
    int file_ = -1;
};

/// The whole content at once.
Status writeAtomically(const std::filesystem::path& path, std::string_view content);

} // namespace headroom
