// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/device/hosted_memory.h"

#include "core/device/simulated_device.h"
#include "core/device/simulated_state.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace headroom::sim {
namespace {

constexpr std::size_t number = 16; ///< bytes of the largest one, a complex128

thread_local int uncounted = 0;

/// What a block takes: of the count, and of the machine.
struct Held
{
    std::shared_ptr<DeviceMemory> counted;
    c10::DataPtr bytes;
};

/// Blocks by their address, which is all that libraries give back that take bytes without a DataPtr.
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

/// Takes bytes where the CPU's own allocator does, and counts them with the simulated device's.
class HostedAllocator final : public c10::Allocator
{
public:
    c10::DataPtr allocate(std::size_t bytes) override
    {
        c10::DataPtr memory = inner_->allocate(std::max<std::size_t>(bytes, 1));
        void* address = memory.get();
        c10::DataPtr block{nullptr, memory.release_context(), memory.get_deleter(), c10::kCPU};
        if (bytes > number && uncounted == 0)
            block = counted(std::move(block), address, bytes);
        const std::lock_guard lock(blocks().mutex);
        blocks().byAddress.emplace(address, std::move(block));
        return {address, address, &freeHosted, c10::kCPU};
    }
    c10::DeleterFnPtr raw_deleter() const override { return &freeHosted; }
    void copy_data(void* to, const void* from, std::size_t bytes) const override { std::memcpy(to, from, bytes); }

    void setInner(c10::Allocator* inner) { inner_ = inner; }

private:
    static c10::DataPtr counted(c10::DataPtr memory, void* address, std::size_t bytes)
    {
        c10::DataPtr counted = simulatedState().allocator.allocate(bytes);
        auto* block = static_cast<Block*>(counted.get_context());
        block->address = address;
        auto held = std::make_shared<Held>(Held{std::move(block->memory), std::move(memory)});
        block->memory = std::shared_ptr<DeviceMemory>(held, held->counted.get());
        return counted;
    }

    c10::Allocator* inner_ = nullptr;
};

/// Storages remember their allocator, so that it is never destroyed.
HostedAllocator& hostedAllocator()
{
    static auto* const allocator = new HostedAllocator;
    return *allocator;
}

} // namespace

HostedMemory::HostedMemory()
    : outer_(c10::GetAllocator(c10::kCPU))
{
    hostedAllocator().setInner(outer_);
    c10::SetAllocator(c10::kCPU, &hostedAllocator());
}

HostedMemory::~HostedMemory()
{
    c10::SetAllocator(c10::kCPU, outer_);
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
    // Bytes that do not count stand there without a block.
    return found != blocks().byAddress.end() && found->second.device() == device()
        ? static_cast<Block*>(found->second.get_context())
        : nullptr;
}

c10::DataPtr hosted(c10::DataPtr block, void* address)
{
    static_cast<Block*>(block.get_context())->address = address;
    const c10::DeleterFnPtr deleter = block.get_deleter();
    return {address, block.release_context(), deleter, c10::kCPU};
}

} // namespace headroom::sim
