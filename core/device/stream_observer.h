// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/bytes.h"
#include "core/trace/step_trace.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace headroom::sim {

/// What a rank tells others, or they tell it.
struct Communication
{
    CollectiveKind kind = CollectiveKind::allReduce;
    Bytes bytes = 0; ///< as StepTrace::Collectives counts them
    std::string group; ///< c10d's name of it
    std::vector<std::uint32_t> ranks; ///< global, in the order of the group
    std::optional<std::uint32_t> peer; ///< of send and recv the other's global rank
    std::uint32_t stream = 0; ///< that carries it
    bool async = false; ///< on the group's own stream: who needs it waits for it
    std::uint32_t before = 0; ///< event of the caller's stream for which it waits, where it is asynchronous
};

/// Told of what streams do besides ops, in the thread that does it.
class StreamObserver
{
public:
    virtual ~StreamObserver() = default;
    virtual void communicated(const Communication& communication) = 0;
    virtual void streamEvent(StreamEventKind kind, std::uint32_t stream, std::uint32_t event) = 0;
};

/// At most one; null to stop observing.
void setStreamObserver(StreamObserver* observer);

void tell(const Communication& communication);
void tell(StreamEventKind kind, std::uint32_t stream, std::uint32_t event);
/// A number that no event had before.
std::uint32_t newEvent();

/// The global ranks of a process group; those below `size` of one that nobody declared.
void addProcessGroup(std::string_view name, std::vector<std::uint32_t> ranks);
std::vector<std::uint32_t> ranksOf(const std::string& group, int size);

} // namespace headroom::sim
