// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <c10/core/Allocator.h>

#include <cstddef>
#include <memory>

namespace headroom {

class RealDevice;

/// A hook between a real device's allocator and the tensors: each allocation passes through the host. The host must
/// outlive all tensors with its memory.
class MemoryHost
{
public:
    virtual ~MemoryHost() = default;
    /// Takes `memory`, which is not null, and returns the pointer for the tensor: the same address, freed by deleter().
    virtual c10::DataPtr take(c10::DataPtr memory, std::size_t bytes) = 0;
    virtual c10::DeleterFnPtr deleter() const = 0;
};

/// Routes all later allocations of CPU tensors through `host`; null: the allocator itself.
void setCpuHost(MemoryHost* host);

}

namespace headroom::sim {

/// Counts the memory of a real device as the simulated device's is counted. While this object lives, the simulated
/// device's allocator counts and observes the memory of tensors on the device, in blocks of 512 bytes. The bytes really
/// exist: a step can be recorded, planned and measured with its real values. Load the model while this object lives.
/// Only a single instance may exist at a time.
class HostedMemory
{
public:
    /// Counts the memory of the CPU. Constants in a program (`x * 2.0`) are CPU tensors even in training on a GPU, so
    /// allocations no larger than a single number do not count.
    HostedMemory();
    /// Counts the memory of an open device.
    explicit HostedMemory(std::shared_ptr<RealDevice> device);
    ~HostedMemory();
    HostedMemory(const HostedMemory&) = delete;
    HostedMemory& operator=(const HostedMemory&) = delete;

    /// While this object lives, allocations of this thread do not count: such allocations belong to the measurement.
    class Uncounted
    {
    public:
        Uncounted();
        ~Uncounted();
        Uncounted(const Uncounted&) = delete;
        Uncounted& operator=(const Uncounted&) = delete;
    };

private:
    std::shared_ptr<RealDevice> device_; ///< null: the CPU
};

struct Block;

/// Returns the block that counts an allocation on a real device; null if the allocation does not count.
Block* hostedBlock(const c10::DataPtr& pointer);

/// Wraps `block`, a block of the simulated device, as a pointer to `address` in the memory of the real `device`.
c10::DataPtr hosted(c10::DataPtr block, void* address, c10::Device device);

} // namespace headroom::sim
