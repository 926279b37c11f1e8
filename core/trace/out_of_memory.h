// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/trace/step_trace.h"

#include <span>
#include <string>
#include <vector>

namespace headroom {

/// A failed allocation of a step or a snapshot: the program requested more memory than the device had free.
struct OutOfMemory
{
    double ms = 0; ///< on the step's time axis
    OpId op; ///< the op "out of memory" that represents the failure in the step
    Bytes requested = 0;
    Bytes deviceFree = 0; ///< bytes that were free on the device
    Bytes reserved = 0; ///< bytes that the allocator had reserved at that time
    Bytes active = 0; ///< bytes of `reserved` in blocks in use
    /// A free piece of the memory that could have served the request: of the same stream and pool.
    struct Piece
    {
        Bytes bytes = 0;
        StorageId beside; ///< the smaller of the two blocks beside the piece; invalid: not known
    };
    std::uint32_t pieces = 0; ///< number of such pieces, all too small; 0: not known
    std::vector<Piece> largest; ///< the largest pieces in descending order
};

/// Whether a request fails only since the free memory lies in pieces: the `unused` bytes of the reserved ones would
/// serve the request, by themselves or together with what the device has left. In the second case unused bytes below
/// 1/50 of the reserved ones do not count: the memory is then full.
constexpr bool isFragmentation(Bytes request, Bytes unused, Bytes deviceFree, Bytes reserved) noexcept
{
    constexpr Bytes leastShare = 50;
    return unused >= request
        || (deviceFree < request && unused + deviceFree >= request && unused >= reserved / leastShare);
}

/// Returns all failed allocations of a step, in order.
std::vector<OutOfMemory> outOfMemoryEvents(const StepTrace& step);
/// Takes other times: `ms` has one value for each op of the step.
std::vector<OutOfMemory> outOfMemoryEvents(const StepTrace& step, std::span<const double> ms);

/// Returns whether a failed allocation ended the step, so that the rest was not recorded.
bool endedOutOfMemory(const StepTrace& step);

/// Returns the sizes of the pieces as a part of a sentence: "pieces of at most 28.00 MiB (28.00 MiB, 2 × 20.00 MiB and
/// 9 more)". Empty: not known.
std::string piecesText(const OutOfMemory& event);

/// Returns a sentence that explains why the allocation failed.
std::string whyOutOfMemory(const OutOfMemory& event);

/// Returns a remark if the program went on after it ran out of memory in forward or backward; empty otherwise.
std::string failureRemark(const StepTrace& step);

/// Returns an error unless the step was recorded to its end: the error says what ended the step, the
/// `consequence` ("no plan can be made of it") and what to do.
Status checkWhole(const StepTrace& step, const std::string& consequence);

} // namespace headroom
