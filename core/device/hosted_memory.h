// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <c10/core/Allocator.h>

#include <memory>

namespace headroom {
class RealDevice;
}

namespace headroom::sim {

/// A real device's memory as a recorded one. While it lives, what tensors on the device take is counted and watched by
/// the simulated device's allocator, in its blocks of 512 bytes, but it is really there: a step can be recorded,
/// planned and measured with the values that it computes. Open the model while it lives; there is one at a time.
class HostedMemory
{
public:
    /// The CPU's. Numbers that stand in a program (`x * 2.0`) are tensors on the CPU also where a GPU trains: what
    /// takes no more than a number does not count.
    HostedMemory();
    /// That of a device that is open.
    explicit HostedMemory(std::shared_ptr<RealDevice> device);
    ~HostedMemory();
    HostedMemory(const HostedMemory&) = delete;
    HostedMemory& operator=(const HostedMemory&) = delete;

    /// While it lives, allocations of this thread do not count: they are the measurement's own.
    class Uncounted
    {
    public:
        Uncounted();
        ~Uncounted();
        Uncounted(const Uncounted&) = delete;
        Uncounted& operator=(const Uncounted&) = delete;
    };

private:
    std::shared_ptr<RealDevice> device_; ///< null: the CPU without one
};

struct Block;

/// The block that counts what an allocation on a real device takes; null: it does not count.
Block* hostedBlock(const c10::DataPtr& pointer);

/// A block of the simulated device whose bytes are at `address` in the memory of a real one.
c10::DataPtr hosted(c10::DataPtr block, void* address, c10::Device device);

} // namespace headroom::sim
