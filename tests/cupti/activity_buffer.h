// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cupti.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace headroom::cupti {

/// A buffer of activity records as CUPTI fills one: its own structures, one after the other.
class ActivityBuffer
{
public:
    void kernel(std::uint32_t correlation, std::uint32_t stream, std::uint64_t start, std::uint64_t end,
                const char* name = "kernel");
    void copy(std::uint32_t correlation, std::uint32_t stream, std::uint64_t start, std::uint64_t end,
              std::uint64_t bytes);
    void copyBetweenGpus(std::uint32_t correlation, std::uint64_t start, std::uint64_t end, std::uint64_t bytes);
    void set(std::uint32_t correlation, std::uint32_t stream, std::uint64_t start, std::uint64_t end,
             std::uint64_t bytes);
    void wait(std::uint64_t start, std::uint64_t end);
    void overhead(std::uint64_t start, std::uint64_t end);
    void external(CUpti_ExternalCorrelationKind kind, std::uint32_t correlation, std::uint64_t id);
    void runtimeCall(std::uint32_t correlation, std::uint32_t thread);
    /// A record of a kind that no header of today names.
    void unknown();

    std::span<std::byte> bytes() { return std::as_writable_bytes(std::span(words_)); }

private:
    template <class Record>
    void add(const Record& record)
    {
        static_assert(sizeof(Record) % sizeof(std::uint64_t) == 0, "records are aligned to 8 bytes");
        const std::size_t at = words_.size();
        words_.resize(at + sizeof(Record) / sizeof(std::uint64_t));
        std::memcpy(&words_[at], &record, sizeof(Record));
    }

    std::vector<std::uint64_t> words_;
};

} // namespace headroom::cupti
