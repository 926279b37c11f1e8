// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <c10/core/Allocator.h>

#include <cstddef>

namespace headroom {

/// A hook between a real device's allocator and the tensors: each allocation passes through it. It must outlive all
/// tensors whose memory it returned.
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

} // namespace headroom
