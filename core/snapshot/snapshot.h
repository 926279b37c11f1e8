// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

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

/// Which part of a snapshot is read, in ms from its first event.
struct SnapshotRange
{
    double fromMs = 0;
    double toMs = std::numeric_limits<double>::infinity();
};

/// PyTorch's memory snapshot (torch.cuda.memory._dump_snapshot): the segments and blocks that the caching allocator
/// held when it was taken, and what it did before, as far as it was recorded. Texts are those of the file, which stays
/// mapped.
struct Snapshot
{
    using Index = std::uint32_t; ///< a row of strings, frames, stacks, streams or blocks
    static constexpr Index none = std::numeric_limits<Index>::max();

    enum class Action : std::uint8_t {
        alloc,
        freeRequested, ///< the program let go of it
        freeCompleted, ///< and no stream uses it any more
        segmentAlloc, ///< cudaMalloc
        segmentFree, ///< cudaFree
        segmentMap, ///< pages of an expandable segment
        segmentUnmap,
        outOfMemory,
        snapshot,
        other,
    };

    struct Event
    {
        std::uint64_t address = 0; ///< of outOfMemory: bytes that the device still had
        Bytes size = 0; ///< as requested, of alloc and free; of segments, what the device gave
        std::int64_t microseconds = 0; ///< since 1970; 0 where it was not recorded
        Index stack = none;
        Index metadata = none; ///< string that the program set (torch.cuda.memory._set_memory_metadata)
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
        std::uint64_t address = 0; ///< 0 in files of old versions: it follows the block before
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

    /// torch.profiler.record_function, and PyTorch's own: the stretches of a step.
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
    std::vector<std::uint64_t> streams; ///< handles
    std::vector<std::vector<Event>> traces; ///< by device, oldest first, those of the range and after it
    std::vector<Segment> segments;
    std::vector<Block> blocks;
    std::vector<Annotation> annotations;
    std::string settings; ///< PYTORCH_CUDA_ALLOC_CONF of the program
    std::int64_t firstMicroseconds = 0; ///< of the first event in the file
    std::uint64_t eventCount = 0; ///< in the file
    SnapshotRange range;

    std::string_view text(Index string) const { return string == none ? std::string_view() : strings[string]; }
    std::span<const Index> stack(Index row) const
    {
        if (row == none)
            return {};
        return std::span(stackFrames).subspan(stackFirst[row], stackFirst[row + 1] - stackFirst[row]);
    }

    std::shared_ptr<const void> memory; ///< keeps the texts
};

using SnapshotPtr = std::shared_ptr<const Snapshot>;

/// Follows what takes long with large files, and can end it. Both may be left out.
struct SnapshotWatch
{
    std::function<void(double)> progressed; ///< share that is done, 0 .. 1
    std::stop_token stop; ///< what was asked to stop ends with the error stoppedReading()
};
Error stoppedReading();

/// Does a file begin as a pickle of protocol 2 or newer? What it holds is not looked at.
bool looksLikePickle(std::span<const std::byte> bytes);

/// Opens a snapshot, as Python's pickle wrote it with protocol 2 to 5. Nothing in it is run: instructions that name or
/// call Python objects are refused. It is read once from front to back, and what was read is kept in a few dozen bytes
/// an event, so that a file of 1 GB takes less memory than it has bytes. Errors (badInput) say the byte, or the key
/// that is missing.
Result<SnapshotPtr> readSnapshot(const std::filesystem::path& path, SnapshotRange range = {},
                                 const SnapshotWatch& watch = {});

/// The same for bytes that live as long as `owner`. `name` is for messages. `goesOn` is told now and then how far the
/// reading is, and may end it.
Result<SnapshotPtr> readSnapshot(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                                 const std::string& name, SnapshotRange range = {},
                                 const std::function<bool(std::size_t)>& goesOn = {});

} // namespace headroom
