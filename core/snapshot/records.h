// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/snapshot/snapshot.h"

#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>

namespace headroom::snapshot {

/// A value of a pickle while it is read. It has 16 bytes; nested values are referred to by index.
struct Value
{
    enum class Kind : std::uint8_t {
        none,
        boolean, ///< integer
        integer,
        real, ///< the number is not kept
        text, ///< index: in strings
        bytes, ///< the content is not kept
        list, ///< index: in the unpickler's containers
        tuple,
        dictionary,
        frame, ///< index: in frames; from here on, records made from dictionaries and lists
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

/// The keys of a snapshot's dictionaries. The value of an enumerator is the index of the key's string.
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
    // Texts that are values of some keys. The names of the allocator's actions have the next numbers.
    activeAllocated,
    activeAwaitingFree,
    activePendingFree,
    small,
    start,
};

class Unpickler;

/// Converts each dictionary and list of a snapshot to rows of the Snapshot as soon as it is complete.
class Records
{
public:
    explicit Records(SnapshotRange range);

    std::uint32_t string(std::string_view text); ///< returns the index of a text

    /// Converts a dictionary (key, value, key, value, …) that is an item of a list; nullopt: it is not part of the
    /// snapshot format.
    std::optional<Value> dictionary(std::span<const Value> items, const Unpickler& unpickler);
    /// Converts a list that is a dictionary's value; nullopt: it is not a stack of frames.
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
    Bytes sizes_ = 0; ///< sum of all sizes, which is checked for overflow
};

} // namespace headroom::snapshot
