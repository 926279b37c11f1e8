// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <cstdint>

namespace headroom::sim {

/// Returns the number of this thread's current stream; 0 is the default stream.
std::uint32_t currentStreamNumber() noexcept;
/// The highest priority of a stream; the lowest is 0. PyTorch has the opposite sign.
inline constexpr int highestPriority = 3;
/// Returns the number of a pooled stream, in turn, as CUDA does (c10/cuda/CUDAStream.cpp): 32 for each priority, those
/// of `priority` from 1 + 32 * priority on. Priorities out of range count as the nearest one.
std::uint32_t newStreamNumber(int priority) noexcept;

/// Returns the guard of the device, which also serves streams and events. Streams run all work at once: nothing ever
/// waits, and a query whether work is done is reported (tellOfDone()), unless the program has waited for it. Events
/// take this machine's time, and report the order that they impose to the observer of streams.
const c10::impl::DeviceGuardImplInterface& simulatedGuard();

} // namespace headroom::sim
