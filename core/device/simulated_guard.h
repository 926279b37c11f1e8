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
/// Returns the number of a pooled stream, in turn, as CUDA does (c10/cuda/CUDAStream.cpp): 32 numbers for each
/// priority, from 1 + 32 * priority on. A priority out of range counts as the nearest priority.
std::uint32_t newStreamNumber(int priority) noexcept;

/// Returns the guard of the device, for streams and events too. Streams run all work at once: nothing ever waits. A
/// query whether work is done is reported (tellOfDone()), unless the program has waited for the work. Events take this
/// machine's time, and report the imposed order to the observer of streams.
const c10::impl::DeviceGuardImplInterface& simulatedGuard();

} // namespace headroom::sim
