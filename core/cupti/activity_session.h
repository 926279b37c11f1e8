// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/cupti/activity_log.h"
#include "core/cupti/cupti_api.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace headroom::cupti {

/// External correlation kinds that Headroom pushes: ops and, around ops, calls of modules.
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

    /// Reads the records in `buffer`, without gaps between records. Kinds that Headroom does not use are skipped. A
    /// record that CUPTI cannot read ends the buffer with an error; the records before are kept.
    Status parse(std::span<std::byte> buffer);

private:
    void add(const CUpti_Activity& record);
    std::uint32_t nameOf(const char* name);

    const CuptiApi& api_;
    ActivityLog& log_;
    std::unordered_map<std::string, std::uint32_t> names_;
};

} // namespace headroom::cupti

namespace headroom::cupti {

/// Traces the GPU with CUPTI's activity API, from start() until stop(). A process can have one session at a time, since
/// CUPTI's callbacks have no context argument.
class ActivitySession
{
public:
    /// Starts tracing. Errors (noDevice) as of cuptiError(); tracing is then off entirely.
    static Result<std::unique_ptr<ActivitySession>> start(const CuptiApi& api);
    ~ActivitySession();
    ActivitySession(const ActivitySession&) = delete;
    ActivitySession& operator=(const ActivitySession&) = delete;

    /// Attributes this thread's launches to op or call `id`, until the matching leave. Scopes nest, each kind
    /// separately.
    void enterOp(std::uint64_t id) const noexcept { push(0, id); }
    void leaveOp() const noexcept { pop(0); }
    void enterCall(std::uint64_t id) const noexcept { push(1, id); }
    void leaveCall() const noexcept { pop(1); }

    /// Returns the records since start() or the last call. The caller must have synchronised the device: CUPTI does
    /// not, and returns running work without the end.
    ActivityLog take();

    /// Ends tracing and returns the last records.
    ActivityLog stop();

    /// Sentences about what could not be traced while the rest can.
    const std::vector<std::string>& notes() const noexcept { return notes_; }

private:
    explicit ActivitySession(const CuptiApi& api)
        : api_(api)
    {
    }
    Status enableAll();
    void disableAll();
    std::uint64_t droppedByCupti() const;
    void push(int kind, std::uint64_t id) const noexcept;
    void pop(int kind) const noexcept;

    CuptiApi api_;
    std::vector<CUpti_ActivityKind> enabled_;
    std::vector<std::string> notes_;
};

} // namespace headroom::cupti
