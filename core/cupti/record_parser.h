// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/cupti/activity_log.h"
#include "core/cupti/cupti_api.h"

#include <cstddef>
#include <span>
#include <string>
#include <unordered_map>

namespace headroom::cupti {

/// External correlation kinds that Headroom pushes: ops and, around them, calls of modules.
inline constexpr CUpti_ExternalCorrelationKind opKind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;
inline constexpr CUpti_ExternalCorrelationKind callKind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM1;

/// Converts CUPTI's buffers to plain records. Strings and addresses in the buffers belong to CUPTI and may become
/// invalid.
class RecordParser
{
public:
    RecordParser(const CuptiApi& api, ActivityLog& log)
        : api_(api)
        , log_(log)
    {
    }

    /// Reads the records in `buffer`, which has no gaps between them. Kinds that Headroom does not use are skipped. A
    /// record that CUPTI cannot read ends the buffer with an error; the records before it are kept.
    Status parse(std::span<std::byte> buffer);

private:
    void add(const CUpti_Activity& record);
    std::uint32_t nameOf(const char* name);

    const CuptiApi& api_;
    ActivityLog& log_;
    std::unordered_map<std::string, std::uint32_t> names_;
};

} // namespace headroom::cupti
