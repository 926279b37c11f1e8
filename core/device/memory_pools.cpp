// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/device/memory_pools.h"

#include "core/device/simulated_guard.h"
#include "core/trace/graph_ops.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <ranges>
#include <set>
#include <thread>
#include <vector>

namespace headroom::sim {
namespace {

struct Use
{
    std::uint32_t pool = 0;
    PoolUser user = PoolUser::thread;
    std::thread::id thread;
    std::vector<std::uint32_t> streams;

    bool isOnStream(std::uint32_t stream) const
    {
        return user == PoolUser::stream && std::ranges::find(streams, stream) != streams.end();
    }
};

std::mutex mutex;
std::vector<Use> uses;
std::set<std::uint32_t> givenUp;
std::atomic<bool> anyUse{false};

} // namespace

void beginAllocateToPool(std::uint32_t pool, PoolUser user)
{
    const std::lock_guard lock(mutex);
    uses.push_back({pool, user, std::this_thread::get_id(), {currentStreamNumber()}});
    anyUse = true;
}

void endAllocateToPool(std::uint32_t pool)
{
    const std::lock_guard lock(mutex);
    const auto last = std::ranges::find(uses | std::views::reverse, pool, &Use::pool);
    if (last != uses.rend())
        uses.erase(std::next(last).base());
    anyUse = !uses.empty();
}

std::uint32_t poolOfStream(std::uint32_t stream)
{
    if (!anyUse)
        return 0;
    const std::lock_guard lock(mutex);
    for (const Use& use : uses | std::views::reverse)
        if (use.isOnStream(stream))
            return use.pool;
    return 0;
}

void joinPool(std::uint32_t pool, std::uint32_t stream)
{
    if (!anyUse)
        return;
    const std::lock_guard lock(mutex);
    for (Use& use : uses | std::views::reverse) {
        if (use.user != PoolUser::stream || use.pool != pool)
            continue;
        if (!use.isOnStream(stream))
            use.streams.push_back(stream);
        return;
    }
}

void giveUpPool(std::uint32_t pool)
{
    const std::lock_guard lock(mutex);
    givenUp.insert(pool);
}

bool isGivenUp(std::uint32_t pool)
{
    const std::lock_guard lock(mutex);
    return givenUp.contains(pool);
}

std::uint32_t currentPlace()
{
    const std::uint32_t stream = currentStreamNumber();
    if (!anyUse)
        return stream;
    const std::lock_guard lock(mutex);
    for (const Use& use : uses | std::views::reverse)
        if (use.user == PoolUser::thread ? use.thread == std::this_thread::get_id() : use.isOnStream(stream))
            return placeOf(stream, use.pool);
    return stream;
}

} // namespace headroom::sim
