// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/cupti/activity_log.h"
#include "core/cupti/cupti_api.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace headroom::cupti {

/// Tracing of the GPU by CUPTI's activity API, from start() until stop(). One at a time in a process, since CUPTI's
/// callbacks have no context to find another one by.
class ActivitySession
{
public:
    /// Errors (noDevice) are cuptiError()'s sentences; nothing stays switched on then.
    static Result<std::unique_ptr<ActivitySession>> start(const CuptiApi& api);
    ~ActivitySession();
    ActivitySession(const ActivitySession&) = delete;
    ActivitySession& operator=(const ActivitySession&) = delete;

    /// What this thread launches from now on belongs to op or call `id`, until left. They nest, each kind by itself.
    void enterOp(std::uint64_t id) const noexcept { push(0, id); }
    void leaveOp() const noexcept { pop(0); }
    void enterCall(std::uint64_t id) const noexcept { push(1, id); }
    void leaveCall() const noexcept { pop(1); }

    /// The records since start() or the last call. The caller has synchronised the device: CUPTI does not, and gives
    /// work that runs without its end.
    ActivityLog take();

    /// Ends tracing and gives the last records.
    ActivityLog stop();

    /// What could not be traced though the rest can, as sentences.
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
