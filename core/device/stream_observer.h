// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/bytes.h"
#include "core/trace/step_trace.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace headroom::sim {

/// A communication of a rank: a collective, a send or a receive.
struct Communication
{
    CollectiveKind kind = CollectiveKind::allReduce;
    Bytes bytes = 0; ///< counted as in StepTrace::Collectives
    std::string group; ///< the name in c10d
    std::vector<std::uint32_t> ranks; ///< global, in the order of the group
    std::optional<std::uint32_t> peer; ///< send and recv: the other side's global rank
    std::uint32_t stream = 0; ///< the stream of the work
    bool async = false; ///< runs on the group's own stream: the user has to wait
    std::uint32_t before = 0; ///< async only: the awaited event of the caller's stream
};

/// Interface for communications and events on streams, called in the thread of the cause. A call that runs while the
/// observer is replaced ends before the observer is destroyed.
class StreamObserver
{
public:
    virtual ~StreamObserver() = default;
    virtual void communicated(const Communication& communication) = 0;
    virtual void streamEvent(StreamEventKind kind, std::uint32_t stream, std::uint32_t event) = 0;
};

/// Sets the only observer; null to stop observing.
void setStreamObserver(std::shared_ptr<StreamObserver> observer);

void tell(const Communication& communication);
void tell(StreamEventKind kind, std::uint32_t stream, std::uint32_t event);
/// Returns a new event number.
std::uint32_t newEvent();

/// Declares the global ranks of a process group. ranksOf() returns the ranks of a declared group; for an undeclared
/// group, all ranks below `size`.
void addProcessGroup(std::string_view name, std::vector<std::uint32_t> ranks);
std::vector<std::uint32_t> ranksOf(const std::string& group, int size);

} // namespace headroom::sim
