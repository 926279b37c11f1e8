// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <c10/core/Allocator.h>

#include <cstddef>

namespace headroom {

/// Stands between a real device's allocator and the tensors: each allocation goes through it. It outlives all tensors
/// that have their memory through it.
class MemoryHost
{
public:
    virtual ~MemoryHost() = default;
    /// `memory`, which is not null, as a tensor shall have it: at the same address, freed by deleter().
    virtual c10::DataPtr take(c10::DataPtr memory, std::size_t bytes) = 0;
    virtual c10::DeleterFnPtr deleter() const = 0;
};

/// From now on tensors on the CPU have their memory through `host`; null: from the allocator itself.
void setCpuHost(MemoryHost* host);

} // namespace headroom
