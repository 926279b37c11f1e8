// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"

#include <caffe2/serialize/read_adapter_interface.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace caffe2::serialize {
class PyTorchStreamReader;
}

namespace headroom {

/// Adapts a file in memory to libtorch's readers. A read inside one of the ranges `holes` leaves the reader's buffer
/// unchanged.
class MappedBytes final : public caffe2::serialize::ReadAdapterInterface
{
public:
    explicit MappedBytes(std::span<const std::byte> bytes, std::vector<std::span<const std::byte>> holes = {})
        : bytes_(bytes)
        , holes_(std::move(holes))
    {
    }
    std::size_t size() const override { return bytes_.size(); }
    std::size_t read(std::uint64_t position, void* buffer, std::size_t size, const char*) const override;

private:
    std::span<const std::byte> bytes_;
    std::vector<std::span<const std::byte>> holes_;
};

/// The zip archive of PyTorch's model files. It is mapped: torch stores tensors without compression, so the bytes of a
/// weight are used in place. All records are in a folder, left out of the names here.
class ZipArchive
{
public:
    /// Opens a file. Errors (badInput): missing, not a zip file, truncated.
    static Result<ZipArchive> open(const std::filesystem::path& path);
    /// Reads from bytes that `memory` keeps alive; `name` is used in messages. Errors as open().
    static Result<ZipArchive> read(std::span<const std::byte> bytes, std::string name,
                                   std::shared_ptr<const void> memory);

    const std::string& name() const { return name_; }
    bool contains(const std::string& record) const;
    /// Returns libtorch's reader with libtorch's exceptions.
    caffe2::serialize::PyTorchStreamReader& reader() const { return *reader_; }

    /// Returns a record's bytes in the file. Errors (badInput): a missing or a compressed record.
    Result<std::span<const std::byte>> record(const std::string& record) const;

private:
    std::string name_;
    std::span<const std::byte> bytes_;
    std::shared_ptr<const void> memory_;
    std::shared_ptr<caffe2::serialize::PyTorchStreamReader> reader_;
};

/// Returns the first sentence of libtorch's message, without the advice about checkpoints and the backtrace.
std::string firstSentence(const std::exception& error);

} // namespace headroom
