// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/trace/step_format.h"

#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace headroom {

/// The bytes of a step file in memory, aligned as a mapping is, open to changes.
class StepBytes
{
public:
    explicit StepBytes(const StepTrace& trace);
    explicit StepBytes(std::span<const std::byte> bytes);

    std::size_t size() const noexcept { return size_; }
    std::span<const std::byte> bytes() const noexcept;
    std::span<std::byte> mutableBytes() noexcept;
    void append(std::size_t count); ///< zeros

    stepformat::Header& header();
    std::span<const stepformat::Section> sections() const;
    stepformat::Section& section(std::string_view name);
    void sign(); ///< makes every checksum right again

    /// Under the name step.hrs, on a copy of its own.
    Result<StepTracePtr> open(stepformat::Checksums checksums) const;

private:
    struct alignas(stepformat::alignment) Block
    {
        std::byte bytes[stepformat::alignment];
    };
    std::vector<Block> blocks_;
    std::size_t size_ = 0;
};

} // namespace headroom
