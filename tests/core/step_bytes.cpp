// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/core/step_bytes.h"

#include "core/base/checksum.h"
#include "core/base/mapped_file.h"
#include "core/trace/step_file.h"
#include "tests/core/temporary_folder.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace headroom {

StepBytes::StepBytes(std::span<const std::byte> bytes)
    : blocks_((bytes.size() + sizeof(Block) - 1) / sizeof(Block))
    , size_(bytes.size())
{
    if (size_ > 0)
        std::memcpy(blocks_.data(), bytes.data(), size_);
}

StepBytes::StepBytes(const StepTrace& trace)
{
    const TemporaryFolder folder;
    const auto path = folder.path() / "step.hrs";
    const Status status = writeStepTrace(trace, path);
    const auto file = MappedFile::open(path);
    if (!status || !file)
        throw std::runtime_error("cannot write a step for the test");
    *this = StepBytes((*file)->bytes());
}

std::span<const std::byte> StepBytes::bytes() const noexcept
{
    return std::as_bytes(std::span(blocks_)).first(size_);
}

std::span<std::byte> StepBytes::mutableBytes() noexcept
{
    return std::as_writable_bytes(std::span(blocks_)).first(size_);
}

void StepBytes::append(std::size_t count)
{
    size_ += count;
    blocks_.resize((size_ + sizeof(Block) - 1) / sizeof(Block));
}

stepformat::Header& StepBytes::header()
{
    return *reinterpret_cast<stepformat::Header*>(blocks_.data());
}

std::span<const stepformat::Section> StepBytes::sections() const
{
    const auto* header = reinterpret_cast<const stepformat::Header*>(blocks_.data());
    return {reinterpret_cast<const stepformat::Section*>(blocks_.data() + 1), header->sections};
}

stepformat::Section& StepBytes::section(std::string_view name)
{
    for (const stepformat::Section& section : sections())
        if (name == section.name.data())
            return const_cast<stepformat::Section&>(section);
    throw std::runtime_error("no such section");
}

void StepBytes::sign()
{
    for (const stepformat::Section& section : sections()) {
        const std::uint64_t filled = stepformat::alignedUp(section.count * section.elementBytes);
        if (section.offset <= size_ && section.count < size_ && filled <= size_ - section.offset)
            const_cast<stepformat::Section&>(section).checksum = checksum(bytes().subspan(section.offset, filled));
    }
    header().checksum = 0;
    header().checksum
        = checksum(bytes().first(sizeof(stepformat::Header) + header().sections * sizeof(stepformat::Section)));
}

Result<StepTracePtr> StepBytes::open(stepformat::Checksums checksums) const
{
    auto copy = std::make_shared<const StepBytes>(*this);
    const auto bytes = copy->bytes();
    return stepformat::openStep(bytes, std::move(copy), "step.hrs", checksums);
}

} // namespace headroom
