// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/allocator/allocator_action.h"
#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/mapped_file.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace headroom {

/// The part of a snapshot to read, in ms from the first event.
struct SnapshotRange
{
    double fromMs = 0;
    double toMs = std::numeric_limits<double>::infinity();
};

/// PyTorch's memory snapshot (torch.cuda.memory._dump_snapshot): the recorded events, and the segments and blocks of
/// the caching allocator after them. Texts point into the mapped file.
struct Snapshot
{
    using Index = std::uint32_t; ///< index in strings, frames, stacks, streams or blocks
    static constexpr Index none = std::numeric_limits<Index>::max();

    using Action = AllocatorAction;

    struct Event
    {
        std::uint64_t address = 0; ///< address; outOfMemory: free bytes of the device
        Bytes size = 0; ///< alloc and free: requested bytes; segments: bytes of the segment
        std::int64_t microseconds = 0; ///< since 1970; 0: not recorded
        Index stack = none;
        Index metadata = none; ///< string set by torch.cuda.memory._set_memory_metadata()
        Index stream = 0;
        Action action = Action::other;
    };

    struct Frame
    {
        Index function = none; ///< string
        Index file = none; ///< string
        std::int32_t line = 0;
    };

    struct Block
    {
        std::uint64_t address = 0; ///< 0 in old files: the block follows the previous one
        Bytes size = 0;
        Bytes requested = 0;
        Index stack = none;
        Index metadata = none;
        bool active = false; ///< allocated, or waiting for another stream
        bool awaitsFree = false;
    };

    struct Segment
    {
        std::int64_t device = 0;
        std::uint64_t address = 0;
        Bytes size = 0;
        Index stream = 0;
        bool small = false;
        bool expandable = false;
        std::pair<std::int64_t, std::int64_t> pool{};
        std::vector<Index> blocks; ///< in address order
    };

    /// The start or end of an annotation by torch.profiler.record_function or PyTorch itself.
    struct Annotation
    {
        Index name = none; ///< string
        std::int64_t device = 0;
        std::int64_t microseconds = 0;
        bool begins = false;
    };

    std::vector<std::string_view> strings;
    std::vector<Frame> frames;
    std::vector<Index> stackFirst{0}; ///< frames of stack i: stackFrames[stackFirst[i] .. stackFirst[i + 1]]
    std::vector<Index> stackFrames; ///< innermost first
    std::vector<std::uint64_t> streams; ///< stream handles
    std::vector<std::vector<Event>> traces; ///< events by device, oldest first, from the start of the range on
    std::vector<Segment> segments;
    std::vector<Block> blocks;
    std::vector<Annotation> annotations;
    std::string settings; ///< PYTORCH_CUDA_ALLOC_CONF of the program
    std::int64_t firstMicroseconds = 0; ///< time of the first event in the file
    std::uint64_t eventCount = 0; ///< number of events in the file
    SnapshotRange range;

    /// Returns the time of an event in ms after the first event in the file.
    double ms(const Event& event) const { return static_cast<double>(event.microseconds - firstMicroseconds) / 1000; }

    std::string_view text(Index string) const { return string == none ? std::string_view() : strings[string]; }
    std::span<const Index> stack(Index row) const
    {
        if (row == none)
            return {};
        return std::span(stackFrames).subspan(stackFirst[row], stackFirst[row + 1] - stackFirst[row]);
    }

    std::shared_ptr<const void> memory; ///< keeps the texts alive
    std::shared_ptr<const MappedFile> file; ///< the file that was read; null: read from other bytes
};

using SnapshotPtr = std::shared_ptr<const Snapshot>;

/// Progress and cancellation of long reads. Both members may be empty.
struct SnapshotWatch
{
    std::function<void(double)> progressed; ///< called with the finished share, 0 to 1
    std::stop_token stop; ///< a stop request ends the read with the error stoppedReading()
};
Error stoppedReading();

/// Returns whether bytes begin as a pickle of protocol 2 or newer. The content is not checked.
bool looksLikePickle(std::span<const std::byte> bytes);

/// Reads a snapshot, a pickle of protocol 2 to 5. Nothing in it is run: opcodes that name or call Python objects are
/// errors. The result has a few dozen bytes per event, so less memory than the bytes of a large file. Errors
/// (badInput) give the byte offset, or the missing key.
Result<SnapshotPtr> readSnapshot(const std::filesystem::path& path, SnapshotRange range = {},
                                 const SnapshotWatch& watch = {});

/// Reads a snapshot from bytes that `owner` keeps alive. `name` is for messages. `goesOn` is called repeatedly with the
/// number of bytes read so far; if it returns false, the read ends with an error. Errors (badInput): as of a file.
Result<SnapshotPtr> readSnapshot(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                                 const std::string& name, SnapshotRange range = {},
                                 const std::function<bool(std::size_t)>& goesOn = {});

} // namespace headroom
