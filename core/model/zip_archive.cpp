// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/model/zip_archive.h"

#include "core/base/mapped_file.h"

#include <algorithm>
#include <optional>

namespace headroom {
namespace {

using Bytes = std::span<const std::byte>;

// APPNOTE.TXT of PKWARE, sections 4.3.7 to 4.5.3.
constexpr std::uint32_t localSignature = 0x04034b50;
constexpr std::uint32_t centralSignature = 0x02014b50;
constexpr std::uint32_t endSignature = 0x06054b50;
constexpr std::uint32_t zip64EndSignature = 0x06064b50;
constexpr std::uint32_t zip64LocatorSignature = 0x07064b50;
constexpr std::size_t localSize = 30;
constexpr std::size_t centralSize = 46;
constexpr std::size_t endSize = 22;
constexpr std::size_t zip64EndSize = 56;
constexpr std::size_t zip64LocatorSize = 20;
constexpr std::size_t longestComment = 0xffff;
constexpr std::uint32_t inZip64 = 0xffffffff; ///< stands for a number that the zip64 record has
constexpr std::uint16_t zip64Extra = 1;

/// A little-endian number; the caller has checked that it is there.
template <class Number>
Number number(Bytes bytes, std::size_t offset)
{
    Number value = 0;
    for (std::size_t i = 0; i < sizeof(Number); ++i)
        value |= static_cast<Number>(static_cast<Number>(bytes[offset + i]) << (8 * i));
    return value;
}

/// The part of `bytes` from `offset` on, where that much is there.
std::optional<Bytes> part(Bytes bytes, std::uint64_t offset, std::uint64_t size)
{
    if (offset > bytes.size() || size > bytes.size() - offset)
        return std::nullopt;
    return bytes.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(size));
}

std::string text(Bytes bytes)
{
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

} // namespace

/// The central directory at the end of the file.
class ZipArchive::Directory
{
public:
    explicit Directory(ZipArchive& archive, Bytes file)
        : archive_(archive)
        , file_(file)
    {
    }
    Status read();

private:
    Status locate();
    Status readEntry(Bytes& rest);
    Error damaged(const std::string& what) const
    {
        return badInput(archive_.name_ + ": " + what + "; the file is damaged or was not written completely");
    }

    ZipArchive& archive_;
    Bytes file_;
    Bytes records_;
};

Status ZipArchive::Directory::locate()
{
    std::optional<std::size_t> end;
    for (std::size_t comment = 0; comment <= longestComment && endSize + comment <= file_.size() && !end; ++comment) {
        const std::size_t offset = file_.size() - endSize - comment;
        if (number<std::uint32_t>(file_, offset) == endSignature)
            end = offset;
    }
    if (!end) {
        if (file_.size() < 4 || number<std::uint32_t>(file_, 0) != localSignature)
            return badInput(archive_.name_ + " is not a zip archive, which .pt2 and TorchScript files are");
        return damaged("the zip archive has no directory at its end");
    }
    std::uint64_t size = number<std::uint32_t>(file_, *end + 12);
    std::uint64_t offset = number<std::uint32_t>(file_, *end + 16);
    if (*end >= zip64LocatorSize && number<std::uint32_t>(file_, *end - zip64LocatorSize) == zip64LocatorSignature) {
        const auto zip64 = part(file_, number<std::uint64_t>(file_, *end - zip64LocatorSize + 8), zip64EndSize);
        if (!zip64 || number<std::uint32_t>(*zip64, 0) != zip64EndSignature)
            return damaged("the zip archive's 64-bit directory is not where it says");
        size = number<std::uint64_t>(*zip64, 40);
        offset = number<std::uint64_t>(*zip64, 48);
    }
    const auto records = part(file_, offset, size);
    if (!records)
        return damaged("the zip archive's directory is not where it says");
    records_ = *records;
    return {};
}

Status ZipArchive::Directory::readEntry(Bytes& rest)
{
    const auto header = part(rest, 0, centralSize);
    if (!header || number<std::uint32_t>(*header, 0) != centralSignature)
        return damaged("the zip archive's directory has an entry that is none");
    const std::size_t nameSize = number<std::uint16_t>(*header, 28);
    const std::size_t extraSize = number<std::uint16_t>(*header, 30);
    const std::size_t commentSize = number<std::uint16_t>(*header, 32);
    const auto variable = part(rest, centralSize, nameSize + extraSize + commentSize);
    if (!variable)
        return damaged("the zip archive's directory ends inside an entry");
    const std::string name = text(variable->first(nameSize));

    std::uint64_t compressed = number<std::uint32_t>(*header, 20);
    std::uint64_t size = number<std::uint32_t>(*header, 24);
    std::uint64_t offset = number<std::uint32_t>(*header, 42);
    Bytes extra = variable->subspan(nameSize, extraSize);
    while (extra.size() >= 4) {
        const auto field = part(extra, 4, number<std::uint16_t>(extra, 2));
        if (!field)
            return damaged("the zip entry '" + name + "' ends inside an extra field");
        Bytes numbers = number<std::uint16_t>(extra, 0) == zip64Extra ? *field : Bytes();
        for (std::uint64_t* wide : {&size, &compressed, &offset}) {
            if (*wide != inZip64 || numbers.size() < 8)
                continue;
            *wide = number<std::uint64_t>(numbers, 0);
            numbers = numbers.subspan(8);
        }
        extra = extra.subspan(4 + field->size());
    }

    const auto local = part(file_, offset, localSize);
    if (!local || number<std::uint32_t>(*local, 0) != localSignature)
        return damaged("the zip entry '" + name + "' is not where the directory says");
    const std::uint64_t before = localSize + number<std::uint16_t>(*local, 26) + number<std::uint16_t>(*local, 28);
    const auto data = part(file_, offset + before, compressed);
    if (!data)
        return damaged("the zip entry '" + name + "' goes past the end of the file");

    const bool stored = number<std::uint16_t>(*header, 10) == 0 && compressed == size;
    const std::size_t slash = name.find('/');
    archive_.entries_.insert_or_assign(slash == std::string::npos ? name : name.substr(slash + 1),
                                       Entry{*data, stored});
    rest = rest.subspan(centralSize + variable->size());
    return {};
}

Status ZipArchive::Directory::read()
{
    if (const Status located = locate(); !located)
        return located;
    while (!records_.empty())
        if (const Status entry = readEntry(records_); !entry)
            return entry;
    return {};
}

Result<ZipArchive> ZipArchive::open(const std::filesystem::path& path)
{
    auto file = MappedFile::open(path);
    if (!file)
        return file.error();
    return read((*file)->bytes(), path.string(), *file);
}

Result<ZipArchive> ZipArchive::read(Bytes bytes, std::string name, std::shared_ptr<const void> memory)
{
    ZipArchive archive;
    archive.name_ = std::move(name);
    archive.memory_ = std::move(memory);
    if (const Status directory = Directory(archive, bytes).read(); !directory)
        return directory.error();
    return archive;
}

Result<Bytes> ZipArchive::record(std::string_view record) const
{
    const auto entry = entries_.find(record);
    if (entry == entries_.end())
        return badInput(name_ + ": the archive has no '" + std::string(record) + "'");
    if (!entry->second.stored)
        return badInput(name_ + ": '" + std::string(record)
                        + "' is compressed; torch.export.save stores it as it is, so save the model again with it");
    return entry->second.data;
}

} // namespace headroom
