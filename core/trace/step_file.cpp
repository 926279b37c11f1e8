// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/trace/step_file.h"

#include "core/base/atomic_write.h"
#include "core/base/checksum.h"
#include "core/base/mapped_file.h"
#include "core/base/try.h"
#include "core/trace/step_format.h"
#include "core/trace/step_info_json.h"

#include <algorithm>
#include <cstring>
#include <optional>

namespace headroom {

namespace stepformat {

namespace {

std::string at(std::uint64_t offset)
{
    return " at offset " + std::to_string(offset);
}

/// Whether a file with these first bytes is a step file, if only the begin of one.
bool looksLikeStep(std::span<const std::byte> bytes)
{
    const std::size_t known = std::min(bytes.size(), signature.size());
    return known > 0 && std::memcmp(bytes.data(), signature.data(), known) == 0;
}

/// Reads a file. Errors name the offset and what was expected there.
class Reader
{
public:
    Reader(std::span<const std::byte> bytes, std::string name, Checksums checksums)
        : bytes_(bytes)
        , name_(std::move(name))
        , checksums_(checksums)
    {
    }

    Result<StepTracePtr> read(std::shared_ptr<const void> owner)
    {
        RETURN_IF_ERROR(readHeader());
        RETURN_IF_ERROR(readTable());
        auto trace = std::make_shared<StepTrace>();
        trace->memory = std::move(owner);
        RETURN_IF_ERROR(readInfo(trace->info));
        std::optional<Error> problem;
        const auto read = [&](std::string_view column, auto& span) {
            if (!problem)
                problem = readColumn(column, span);
        };
        visitColumns(read, *trace);
        const auto readIfThere = [&](std::string_view column, auto& span) {
            if (find(column))
                read(column, span);
        };
        visitOptionalColumns(readIfThere, *trace);
        if (problem)
            return *problem;
        if (Status status = validate(*trace); !status)
            return damaged(status.error().message);
        return StepTracePtr(std::move(trace));
    }

private:
    Error damaged(const std::string& what) const { return badInput(name_ + " is damaged: " + what); }

    Status readHeader()
    {
        if (!looksLikeStep(bytes_))
            return badInput(name_ + " is not a step file: expected the signature of step.hrs at offset 0");
        if (bytes_.size() < sizeof(Header))
            return truncated(sizeof(Header));
        std::memcpy(&header_, bytes_.data(), sizeof(Header));
        if (header_.version > version)
            return badInput(name_ + " was written by a newer Headroom: the file has format "
                            + std::to_string(header_.version) + at(offsetof(Header, version)) + ", expected at most "
                            + std::to_string(version));
        if (header_.version == 0)
            return damaged("format 0" + at(offsetof(Header, version)) + ", expected 1 to " + std::to_string(version));
        if (bytes_.size() < header_.fileBytes)
            return truncated(header_.fileBytes);
        if (bytes_.size() > header_.fileBytes)
            return damaged("the file goes on" + at(header_.fileBytes) + ", expected the end there");
        return {};
    }

    Error truncated(std::uint64_t expected) const
    {
        return badInput(name_ + " is truncated: the file ends" + at(bytes_.size()) + ", expected "
                        + std::to_string(expected) + " bytes");
    }

    Status readTable()
    {
        const std::uint64_t tableBytes = std::uint64_t{header_.sections} * sizeof(Section);
        if (tableBytes > bytes_.size() - sizeof(Header))
            return damaged(std::to_string(header_.sections) + " sections" + at(offsetof(Header, sections))
                           + ", expected a section table inside the file");
        if (checksums_ == Checksums::verify) {
            std::vector<std::byte> head(bytes_.begin(),
                                        bytes_.begin() + static_cast<std::ptrdiff_t>(sizeof(Header) + tableBytes));
            std::memset(head.data() + offsetof(Header, checksum), 0, sizeof(header_.checksum));
            if (checksum(head) != header_.checksum)
                return damaged("header and section table differ from the checksum" + at(offsetof(Header, checksum)));
        }
        sections_.resize(header_.sections);
        if (tableBytes > 0)
            std::memcpy(sections_.data(), bytes_.data() + sizeof(Header), tableBytes);
        std::uint64_t expected = sizeof(Header) + tableBytes;
        for (std::size_t i = 0; i < sections_.size(); ++i) {
            RETURN_IF_ERROR(checkSection(sections_[i], sizeof(Header) + i * sizeof(Section), expected));
            expected = alignedUp(expected + sections_[i].count * sections_[i].elementBytes);
        }
        if (expected != bytes_.size())
            return damaged("the sections end" + at(expected) + ", expected " + std::to_string(bytes_.size()));
        return {};
    }

    Status checkSection(const Section& section, std::uint64_t entry, std::uint64_t expected) const
    {
        if (section.name.back() != '\0')
            return damaged("the section's name" + at(entry) + " does not end");
        const std::string title = "section " + std::string(section.name.data());
        if (section.offset != expected)
            return damaged(title + " begins" + at(section.offset) + " (table entry" + at(entry) + "), expected "
                           + std::to_string(expected));
        const std::uint64_t left = bytes_.size() - expected;
        if (section.elementBytes == 0 || section.count > left / section.elementBytes
            || alignedUp(section.count * section.elementBytes) > left)
            return damaged(title + at(expected) + " has " + std::to_string(section.count)
                           + " elements, expected all elements inside the file");
        if (checksums_ == Checksums::verify && checksum(bytesOf(section)) != section.checksum)
            return damaged(title + at(expected) + " differs from the checksum");
        return {};
    }

    std::span<const std::byte> bytesOf(const Section& section) const
    {
        return bytes_.subspan(section.offset, alignedUp(section.count * section.elementBytes));
    }

    const Section* find(std::string_view name) const
    {
        const auto found = std::ranges::find(sections_, name, [](const Section& s) { return s.name.data(); });
        return found == sections_.end() ? nullptr : &*found;
    }

    Status readInfo(StepInfo& info) const
    {
        const Section* section = find(infoSection);
        if (!section || section->type != ElementType::json || section->elementBytes != 1)
            return damaged("expected a section info of JSON in the section table" + at(sizeof(Header)));
        const auto text = bytes_.subspan(section->offset, section->count);
        ASSIGN_OR_RETURN(info,
                         stepInfoFromJson({reinterpret_cast<const char*>(text.data()), text.size()},
                                          damaged("section info" + at(section->offset)).message));
        return {};
    }

    template <class T>
    std::optional<Error> readColumn(std::string_view column, std::span<const T>& span) const
    {
        static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= alignment);
        const Section* section = find(column);
        if (!section)
            return damaged("expected a section " + std::string(column) + " in the section table" + at(sizeof(Header)));
        if (section->type != elementType<T>() || section->elementBytes != sizeof(T))
            return damaged("section " + std::string(column) + at(section->offset) + " has elements of type "
                           + std::to_string(static_cast<std::uint32_t>(section->type)) + " and "
                           + std::to_string(section->elementBytes) + " bytes, expected type "
                           + std::to_string(static_cast<std::uint32_t>(elementType<T>())) + " and "
                           + std::to_string(sizeof(T)));
        // The column is used in place in the file's bytes: the elements are plain and aligned.
        span = {reinterpret_cast<const T*>(bytes_.data() + section->offset), section->count};
        return {};
    }

    std::span<const std::byte> bytes_;
    std::string name_;
    Checksums checksums_;
    Header header_;
    std::vector<Section> sections_;
};

/// Writes a step: the constructor collects the sections, write() lays the sections out.
class Writer
{
public:
    explicit Writer(const StepTrace& trace)
        : info_(stepInfoToJson(trace.info))
    {
        add(infoSection, ElementType::json, std::as_bytes(std::span(info_)), 1);
        const auto addColumn = [&]<class T>(std::string_view name, const std::span<const T>& column) {
            add(name, elementType<T>(), std::as_bytes(column), sizeof(T));
        };
        visitColumns(addColumn, trace);
        const auto addRows = [&](std::string_view name, const auto& column) {
            if (!column.empty())
                addColumn(name, column);
        };
        visitOptionalColumns(addRows, trace);
    }

    Status write(AtomicFile& file)
    {
        std::uint64_t offset = sizeof(Header) + sections_.size() * sizeof(Section);
        for (std::size_t i = 0; i < sections_.size(); ++i) {
            sections_[i].offset = offset;
            sections_[i].checksum = checksum(padded(i));
            offset += alignedUp(contents_[i].size());
        }
        RETURN_IF_ERROR(file.write(head(offset)));
        for (std::size_t i = 0; i < sections_.size(); ++i)
            RETURN_IF_ERROR(file.write(padded(i)));
        return {};
    }

private:
    void add(std::string_view name, ElementType type, std::span<const std::byte> content, std::size_t elementBytes)
    {
        Section section;
        std::ranges::copy(name, section.name.begin());
        section.type = type;
        section.elementBytes = static_cast<std::uint32_t>(elementBytes);
        section.count = content.size() / elementBytes;
        sections_.push_back(section);
        contents_.push_back(content);
    }

    /// Returns the content of a section with padding.
    std::vector<std::byte> padded(std::size_t i) const
    {
        std::vector<std::byte> result(alignedUp(contents_[i].size()));
        std::ranges::copy(contents_[i], result.begin());
        return result;
    }

    std::vector<std::byte> head(std::uint64_t fileBytes) const
    {
        Header header;
        header.signature = signature;
        header.version = version;
        header.sections = static_cast<std::uint32_t>(sections_.size());
        header.fileBytes = fileBytes;
        std::vector<std::byte> result(sizeof(Header) + sections_.size() * sizeof(Section));
        std::memcpy(result.data() + sizeof(Header), sections_.data(), sections_.size() * sizeof(Section));
        std::memcpy(result.data(), &header, sizeof(header));
        header.checksum = checksum(result);
        std::memcpy(result.data(), &header, sizeof(header));
        return result;
    }

    std::string info_;
    std::vector<Section> sections_;
    std::vector<std::span<const std::byte>> contents_;
};

} // namespace

Result<StepTracePtr> openStep(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                              const std::string& name, Checksums checksums)
{
    return Reader(bytes, name, checksums).read(std::move(owner));
}

} // namespace stepformat

Result<StepTracePtr> readStepTrace(const std::filesystem::path& path)
{
    ASSIGN_OR_RETURN(auto file, MappedFile::read(path)); // once checked, the columns are trusted
    return stepformat::openStep(file->bytes(), file, path.string(), stepformat::Checksums::verify);
}

bool isStepFile(const std::filesystem::path& path)
{
    const auto file = MappedFile::open(path);
    return file.ok() && stepformat::looksLikeStep((*file)->bytes());
}

Status writeStepTrace(const StepTrace& trace, const std::filesystem::path& path)
{
    ASSIGN_OR_RETURN(auto file, AtomicFile::create(path));
    RETURN_IF_ERROR(writeStepTrace(trace, file));
    return file.commit(stepDurability);
}

Status writeStepTrace(const StepTrace& trace, AtomicFile& file)
{
    return stepformat::Writer(trace).write(file);
}

} // namespace headroom
