// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/device/hosted_memory.h"

#include "core/device/real_device.h"
#include "core/device/simulated_device.h"
#include "core/device/simulated_state.h"

#include <c10/util/ParallelGuard.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace headroom {
namespace {

/// Passes each allocation of the CPU's own allocator through the host.
class HostedCpuAllocator final : public c10::Allocator
{
public:
    c10::DataPtr allocate(std::size_t bytes) override
    {
        return host_->take(inner_->allocate(std::max<std::size_t>(bytes, 1)), bytes);
    }
    c10::DeleterFnPtr raw_deleter() const override { return host_->deleter(); }
    void copy_data(void* to, const void* from, std::size_t bytes) const override { std::memcpy(to, from, bytes); }

    void setHost(MemoryHost* host)
    {
        if (host && !installed_) {
            inner_ = c10::GetAllocator(c10::kCPU);
            c10::SetAllocator(c10::kCPU, this);
        } else if (!host && installed_) {
            c10::SetAllocator(c10::kCPU, inner_);
        }
        installed_ = host != nullptr;
        if (host)
            host_ = host; // kept after setHost(nullptr): storages remember this allocator and may still call the host
    }

private:
    c10::Allocator* inner_ = nullptr;
    MemoryHost* host_ = nullptr;
    bool installed_ = false;
};

} // namespace

void setCpuHost(MemoryHost* host)
{
    static auto* const allocator = new HostedCpuAllocator; // never destroyed: storages remember the object
    allocator->setHost(host);
}

} // namespace headroom

namespace headroom::sim {
namespace {

constexpr std::size_t largestNumber = 16; ///< bytes of a complex128

thread_local int uncounted = 0;

/// The memory of a hosted block: the share of the counted memory, and the real bytes.
struct HostedBlock
{
    std::shared_ptr<DeviceMemory> counted;
    c10::DataPtr bytes;
};

/// Blocks by address. Libraries that allocate without a DataPtr free a block by the address alone.
struct HostedBlocks
{
    std::mutex mutex;
    std::unordered_map<const void*, c10::DataPtr> byAddress;
};

HostedBlocks& blocks()
{
    static auto* const blocks = new HostedBlocks; // tensors of static storage duration are freed after main()
    return *blocks;
}

void freeHosted(void* address)
{
    c10::DataPtr block; // freed without the lock
    const std::lock_guard lock(blocks().mutex);
    const auto found = blocks().byAddress.find(address);
    block = std::move(found->second);
    blocks().byAddress.erase(found);
}

/// Counts the allocations of a real device in the simulated device's allocator.
class CountingHost final : public MemoryHost
{
public:
    c10::DataPtr take(c10::DataPtr memory, std::size_t bytes) override
    {
        void* address = memory.get();
        const c10::Device device = memory.device();
        c10::DataPtr block{nullptr, memory.release_context(), memory.get_deleter(), device};
        // Scratch memory of a kernel's parallel loop does not count: the amount depends on the threads.
        if (uncounted == 0 && !c10::ParallelGuard::is_enabled() && bytes > (device.is_cpu() ? largestNumber : 0))
            block = counted(std::move(block), address, bytes);
        const std::lock_guard lock(blocks().mutex);
        blocks().byAddress.emplace(address, std::move(block));
        return {address, address, &freeHosted, device};
    }
    c10::DeleterFnPtr deleter() const override { return &freeHosted; }

private:
    static c10::DataPtr counted(c10::DataPtr memory, void* address, std::size_t bytes)
    {
        c10::DataPtr counted = simulatedState().allocator.allocate(bytes);
        auto* block = static_cast<Block*>(counted.get_context());
        block->address = address;
        auto held = std::make_shared<HostedBlock>(HostedBlock{std::move(block->memory), std::move(memory)});
        block->memory = std::shared_ptr<DeviceMemory>(held, held->counted.get());
        return counted;
    }
};

CountingHost& countingHost()
{
    static auto* const host = new CountingHost; // never destroyed: storages may outlive main()
    return *host;
}

} // namespace

HostedMemory::HostedMemory()
{
    setCpuHost(&countingHost());
}

HostedMemory::HostedMemory(std::shared_ptr<RealDevice> device)
    : device_(std::move(device))
{
    device_->setHost(&countingHost());
}

HostedMemory::~HostedMemory()
{
    if (device_)
        device_->setHost(nullptr);
    else
        setCpuHost(nullptr);
}

HostedMemory::Uncounted::Uncounted()
{
    ++uncounted;
}

HostedMemory::Uncounted::~Uncounted()
{
    --uncounted;
}

Block* hostedBlock(const c10::DataPtr& pointer)
{
    if (pointer.get_deleter() != &freeHosted)
        return nullptr;
    const std::lock_guard lock(blocks().mutex);
    const auto found = blocks().byAddress.find(pointer.get());
    // An allocation that does not count has no block of the simulated device.
    return found != blocks().byAddress.end() && found->second.device() == device()
        ? static_cast<Block*>(found->second.get_context())
        : nullptr;
}

c10::DataPtr hosted(c10::DataPtr block, void* address, c10::Device device)
{
    static_cast<Block*>(block.get_context())->address = address;
    const c10::DeleterFnPtr deleter = block.get_deleter();
    return {address, block.release_context(), deleter, device};
}

} // namespace headroom::sim
