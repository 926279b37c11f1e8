// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/snapshot/snapshot.h"

#include <array>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace headroom::snapshot {

/// A value of a pickle while it is read. Sixteen bytes, and never more than one level deep.
struct Value
{
    enum class Kind : std::uint8_t {
        none,
        boolean, ///< integer
        integer,
        real, ///< its number is not kept
        text, ///< index: of strings
        bytes, ///< its content is not kept
        list, ///< index: of the unpickler's containers
        tuple,
        dictionary,
        frame, ///< index: of frames; this and those below are what dictionaries and lists became
        stack,
        block,
        segment,
        event,
        annotation,
        dropped, ///< an event outside the range
    };

    Kind kind = Kind::none;
    std::uint32_t index = 0;
    std::int64_t integer = 0;

    bool isContainer() const noexcept { return kind == Kind::list || kind == Kind::tuple || kind == Kind::dictionary; }
};

/// Keys of a snapshot's dictionaries. Each is the row of its string.
enum class Key : std::uint32_t {
    action,
    addr,
    size,
    stream,
    timeUs,
    userMetadata,
    frames,
    deviceFree,
    name,
    filename,
    line,
    address,
    requestedSize,
    state,
    blocks,
    device,
    totalSize,
    segmentType,
    segmentPoolId,
    isExpandable,
    stage,
    segments,
    deviceTraces,
    allocatorSettings,
    externalAnnotations,
    allocConf,
    // Values of some of them.
    alloc,
    freeRequested,
    freeCompleted,
    segmentAlloc,
    segmentFree,
    segmentMap,
    segmentUnmap,
    outOfMemory,
    snapshot,
    activeAllocated,
    activeAwaitingFree,
    activePendingFree,
    small,
    start,
};

class Unpickler;

/// What a snapshot's dictionaries and lists become as soon as they are complete: rows of the Snapshot.
class Records
{
public:
    explicit Records(SnapshotRange range);

    std::uint32_t string(std::string_view text);

    /// A dictionary (key, value, key, value, …) that becomes an item of a list. Nothing: it is none of a snapshot's.
    std::optional<Value> dictionary(std::span<const Value> items, const Unpickler& unpickler);
    /// A list that becomes a dictionary's value.
    std::optional<Value> list(std::span<const Value> items);

    Snapshot& result() { return snapshot_; }

private:
    std::optional<Value> event(std::span<const Value> items);
    Value frame(std::span<const Value> items);
    Value block(std::span<const Value> items);
    Value segment(std::span<const Value> items, const Unpickler& unpickler);
    Value annotation(std::span<const Value> items);
    std::uint32_t stream(std::int64_t handle);
    Bytes size(const Value& value, Key key);

    Snapshot snapshot_;
    std::unordered_map<std::string_view, std::uint32_t> strings_;
    std::unordered_multimap<std::uint64_t, std::uint32_t> stacks_; ///< by the hash of their frames
    std::uint32_t lastStream_ = 0;
    Bytes sizes_ = 0; ///< all together: sums of them cannot overflow
};

} // namespace headroom::snapshot
