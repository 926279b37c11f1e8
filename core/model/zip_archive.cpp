// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/model/zip_archive.h"

#include "core/base/mapped_file.h"
#include "core/base/try.h"

#include <c10/util/Exception.h>
#include <caffe2/serialize/inline_container.h>

#include <algorithm>
#include <cstring>

namespace headroom {
namespace {

using Span = std::span<const std::byte>;

/// Whether a record is compressed, by the local file header (section 4.3.7 of PKWARE's APPNOTE.TXT).
bool isCompressed(Span header)
{
    constexpr std::size_t method = 8;
    return header[method] != std::byte{0} || header[method + 1] != std::byte{0};
}

} // namespace

std::size_t MappedBytes::read(std::uint64_t position, void* buffer, std::size_t size, const char*) const
{
    if (position >= bytes_.size())
        return 0;
    const Span part = bytes_.subspan(position, std::min<std::size_t>(size, bytes_.size() - position));
    const auto holds = [&](Span hole) {
        return part.data() >= hole.data() && part.data() + part.size() <= hole.data() + hole.size();
    };
    if (std::ranges::none_of(holes_, holds))
        std::memcpy(buffer, part.data(), part.size());
    return part.size();
}

std::string firstSentence(const std::exception& error)
{
    const auto* known = dynamic_cast<const c10::Error*>(&error);
    const std::string message = known ? known->what_without_backtrace() : error.what();
    const std::size_t begin = std::min(message.find_first_not_of(" \n"), message.size());
    return message.substr(begin, std::min(message.find('\n', begin), message.find(". ", begin)) - begin);
}

Result<ZipArchive> ZipArchive::open(const std::filesystem::path& path)
{
    ASSIGN_OR_RETURN(auto file, MappedFile::open(path));
    Result<ZipArchive> archive = read(file->bytes(), path.string(), file);
    RETURN_IF_ERROR(file->unchanged());
    return archive;
}

Result<ZipArchive> ZipArchive::read(Span bytes, std::string name, std::shared_ptr<const void> memory)
{
    ZipArchive archive;
    archive.name_ = std::move(name);
    archive.bytes_ = bytes;
    archive.memory_ = std::move(memory);
    try {
        archive.reader_
            = std::make_shared<caffe2::serialize::PyTorchStreamReader>(std::make_shared<MappedBytes>(bytes));
    } catch (const std::exception& error) {
        return badInput(archive.name_ + " is no PyTorch archive (.pt2 or TorchScript), or is damaged or incomplete: "
                        + firstSentence(error));
    }
    return archive;
}

bool ZipArchive::contains(const std::string& record) const
{
    try {
        return reader_->hasRecord(record);
    } catch (const std::exception&) { // the directory is damaged
        return false;
    }
}

Result<Span> ZipArchive::record(const std::string& record) const
{
    if (!contains(record))
        return badInput(name_ + ": the archive has no '" + record + "'");
    try {
        const std::size_t header = reader_->getRecordHeaderOffset(record);
        const std::size_t offset = reader_->getRecordOffset(record);
        const std::size_t size = reader_->getRecordSize(record);
        if (header > offset || offset > bytes_.size() || isCompressed(bytes_.subspan(header)))
            return badInput(
                name_ + ": '" + record
                + "' is compressed or damaged; save the model again with torch.export.save or torch.jit.save");
        if (size > bytes_.size() - offset)
            return badInput(name_ + ": '" + record + "' goes past the end of the file; the file is damaged");
        return bytes_.subspan(offset, size);
    } catch (const std::exception& error) {
        return badInput(name_ + ": '" + record + "' cannot be read: " + firstSentence(error));
    }
}

} // namespace headroom
