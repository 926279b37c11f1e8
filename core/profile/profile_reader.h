// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"
#include "core/base/mapped_file.h"
#include "core/profile/profile.h"

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace headroom {

/// Reads a text from front to back in pieces. Gzipped text is unpacked on the way, never as a whole.
class TextInput
{
public:
    /// `file` keeps the bytes alive; without a file, the caller must.
    TextInput(std::span<const std::byte> bytes, std::shared_ptr<const MappedFile> file);
    ~TextInput();
    TextInput(const TextInput&) = delete;
    TextInput& operator=(const TextInput&) = delete;

    /// Returns the next piece, valid until the next call; empty at the end or after a failure.
    std::span<const char> next();

    /// What is wrong with the gzipped bytes, as the end of a sentence; empty: nothing.
    const std::string& problem() const noexcept { return problem_; }

private:
    struct Unpacker;

    std::span<const char> unpack();

    std::span<const std::byte> bytes_;
    std::shared_ptr<const MappedFile> file_;
    std::size_t read_ = 0;
    std::size_t unpacked_ = 0; ///< bytes so far, if the text is gzipped
    std::vector<char> piece_;
    std::unique_ptr<Unpacker> unpacker_; ///< null: the bytes are the text
    std::string problem_;
};

/// Reads a Chrome trace of torch.profiler (Kineto, torch 1.8 and later), plain or gzipped, from front to back without
/// holding it in memory. Errors (badInput) are one sentence that begins with the file's name: not JSON, truncated,
/// damaged, other JSON, a trace without PyTorch's events.
Result<Profile> readProfile(const std::filesystem::path& path);
Result<Profile> readProfile(std::span<const std::byte> bytes, const std::string& name);

/// Returns whether the file, unpacked if gzipped, begins as JSON does. False also if it cannot be read.
bool isProfileFile(const std::filesystem::path& path);

} // namespace headroom
