// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <c10/core/Allocator.h>

namespace headroom::sim {

/// The CPU's memory as a recorded device. While it lives, what tensors on the CPU take is counted and watched by the
/// simulated device's allocator, in its blocks of 512 bytes, but it is really there: a step on the CPU can be recorded,
/// planned and measured with the values that it computes. Open the model while it lives. Numbers that stand in a
/// program (`x * 2.0`) are tensors on the CPU also where a GPU trains: what takes no more than a number does not count.
class HostedMemory
{
public:
    HostedMemory();
    ~HostedMemory();
    HostedMemory(const HostedMemory&) = delete;
    HostedMemory& operator=(const HostedMemory&) = delete;

    /// What this thread allocates while it lives does not count: the bookkeeping of who measures.
    class Uncounted
    {
    public:
        Uncounted();
        ~Uncounted();
        Uncounted(const Uncounted&) = delete;
        Uncounted& operator=(const Uncounted&) = delete;
    };

private:
    c10::Allocator* outer_; ///< the CPU's, as it was
};

struct Block;

/// The block that counts what an allocation on the CPU takes; null: it does not count.
Block* hostedBlock(const c10::DataPtr& pointer);

/// A block of the simulated device whose bytes are at `address` in the CPU's memory.
c10::DataPtr hosted(c10::DataPtr block, void* address);

} // namespace headroom::sim
