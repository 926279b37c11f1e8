// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/device/pinned_memory.h"

#include <c10/core/CPUAllocator.h>

#include <cstring>
#include <map>
#include <mutex>

namespace headroom::sim {
namespace {

/// Begin and end addresses of pinned memory. Never destroyed: tensors may free theirs after main().
struct PinnedRanges
{
    std::mutex mutex;
    std::map<const std::byte*, const std::byte*> ends;
};

PinnedRanges& ranges()
{
    static auto* const ranges = new PinnedRanges;
    return *ranges;
}

void unpin(void* address)
{
    unregisterPinned(address);
    c10::GetDefaultCPUAllocator()->raw_deallocate(address);
}

class PinnedMemoryAllocator final : public c10::Allocator
{
public:
    c10::DataPtr allocate(std::size_t bytes) override
    {
        if (bytes == 0)
            return {nullptr, nullptr, &c10::detail::deleteNothing, c10::Device(c10::kCPU)};
        void* address = c10::GetDefaultCPUAllocator()->raw_allocate(bytes);
        registerPinned(address, bytes);
        return {address, address, &unpin, c10::Device(c10::kCPU)};
    }
    c10::DeleterFnPtr raw_deleter() const override { return &unpin; }
    void copy_data(void* to, const void* from, std::size_t bytes) const override { std::memcpy(to, from, bytes); }
};

} // namespace

c10::Allocator* pinnedMemoryAllocator()
{
    static auto* const allocator = new PinnedMemoryAllocator;
    return allocator;
}

void registerPinned(const void* address, std::size_t bytes)
{
    const auto* begin = static_cast<const std::byte*>(address);
    const std::lock_guard lock(ranges().mutex);
    ranges().ends[begin] = begin + bytes;
}

void unregisterPinned(const void* address)
{
    const std::lock_guard lock(ranges().mutex);
    ranges().ends.erase(static_cast<const std::byte*>(address));
}

bool isPinnedMemory(const void* address)
{
    const auto* byte = static_cast<const std::byte*>(address);
    const std::lock_guard lock(ranges().mutex);
    const auto next = ranges().ends.upper_bound(byte);
    return next != ranges().ends.begin() && byte < std::prev(next)->second;
}

} // namespace headroom::sim
