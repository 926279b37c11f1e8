// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/device/stream_observer.h"

#include "core/base/shared_slot.h"

#include <atomic>
#include <map>
#include <mutex>
#include <numeric>
#include <utility>

namespace headroom::sim {
namespace {

SharedSlot<StreamObserver>& observing()
{
    static auto* const observer = new SharedSlot<StreamObserver>; // never destroyed: used after main(), too
    return *observer;
}

struct ProcessGroups
{
    std::mutex mutex;
    std::map<std::string, std::vector<std::uint32_t>, std::less<>> ranks; ///< by name
};

ProcessGroups& processGroups()
{
    static auto* const groups = new ProcessGroups; // never destroyed: used after main(), too
    return *groups;
}

} // namespace

void setStreamObserver(std::shared_ptr<StreamObserver> observer)
{
    observing().set(std::move(observer));
}

void tell(const Communication& communication)
{
    if (const auto observer = observing().get())
        observer->communicated(communication);
}

void tell(StreamEventKind kind, std::uint32_t stream, std::uint32_t event)
{
    if (const auto observer = observing().get())
        observer->streamEvent(kind, stream, event);
}

std::uint32_t newEvent()
{
    static std::atomic<std::uint32_t> events{0};
    return ++events;
}

void addProcessGroup(std::string_view name, std::vector<std::uint32_t> ranks)
{
    ProcessGroups& groups = processGroups();
    const std::lock_guard lock(groups.mutex);
    groups.ranks.insert_or_assign(std::string(name), std::move(ranks));
}

std::vector<std::uint32_t> ranksOf(const std::string& group, int size)
{
    ProcessGroups& groups = processGroups();
    const std::lock_guard lock(groups.mutex);
    if (const auto found = groups.ranks.find(group); found != groups.ranks.end())
        return found->second;
    std::vector<std::uint32_t> ranks(static_cast<std::size_t>(size));
    std::iota(ranks.begin(), ranks.end(), 0U);
    return ranks;
}

} // namespace headroom::sim
