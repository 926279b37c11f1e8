// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/pickle_machine.h"
#include "core/snapshot/snapshot.h"

#include <deque>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>

namespace headroom::snapshot {

/// A value of a pickle during reading, in 16 bytes; nested values are referred to by index.
struct Value
{
    enum class Type : std::uint8_t {
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

    Type type = Type::none;
    std::uint32_t index = 0;
    std::int64_t integer = 0;

    bool isContainer() const noexcept { return type == Type::list || type == Type::tuple || type == Type::dictionary; }
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

/// Converts each dictionary and list of a snapshot to rows of the Snapshot as soon as complete.
class Records
{
public:
    explicit Records(SnapshotRange range);

    std::uint32_t string(std::string_view text); ///< returns the index of a text

    /// Converts a dictionary (key, value, key, value, …) that is an item of a list; nullopt: not part of the
    /// snapshot format.
    std::optional<Value> dictionary(std::span<const Value> items, const Unpickler& unpickler);
    /// Converts a list that is a dictionary's value; nullopt: not a stack of frames.
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
    std::unordered_multimap<std::uint64_t, std::uint32_t> stacks_; ///< by the hash of the frames
    std::uint32_t lastStream_ = 0;
    Bytes sizes_ = 0; ///< sum of all sizes, checked for overflow
};

/// Reads pickles of plain data: numbers, texts, lists, tuples and dictionaries. Opcodes that name, create or call an
/// object are errors. A dictionary or list becomes a record when it is put into another one, and its container is
/// reused, so that the memory depends on the number of records, not of values.
class Unpickler : public PickleMachine<Unpickler, Value>
{
public:
    Unpickler(std::span<const std::byte> bytes, Records& records)
        : PickleMachine(bytes)
        , records_(records)
    {
    }
    std::span<const Value> items(const Value& container) const { return containers_[container.index].items; }

private:
    friend class PickleMachine<Unpickler, Value>;
    using Type = Value::Type;
    /// A list, tuple or dictionary of items that are not records yet.
    struct Container
    {
        std::vector<Value> items; ///< a dictionary's are key, value, key, value, …
        Value became; ///< the record; type none: not yet
        std::uint32_t memo = noMemo; ///< index of the memo entry
        bool inside = false; ///< inside another container, and constant from now on
        bool shared = false; ///< more than the stack and a memo entry may refer to the container
    };
    static constexpr int newestProtocol = 5;
    static constexpr std::uint32_t noMemo = UINT32_MAX;
    static constexpr std::size_t mostItemsKept = 64; ///< capacity that a reused container may keep

    Value none() { return {}; }
    Value boolean(bool value) { return {Type::boolean, 0, value}; }
    Value integer(std::int64_t value) { return {Type::integer, 0, value}; }
    Value real(std::string_view) { return {Type::real}; }
    Value text(std::string_view text) { return {Type::text, records_.string(text)}; }
    Value bytes(std::string_view) { return {Type::bytes}; }
    Value list() { return open(Type::list); }
    Value dictionary() { return open(Type::dictionary); }
    Value tuple(Items items);
    void append(const Value& list, Items items);
    void setItems(const Value& dictionary, Items items);
    void forgotten(const Value& value)
    {
        if (!value.isContainer())
            return;
        containers_[value.index].shared = true;
        containers_[value.index].memo = noMemo;
    }
    void remembered(const Value& value, std::size_t index)
    {
        if (!value.isContainer())
            return;
        Container& container = containers_[value.index];
        if (container.memo != noMemo)
            container.shared = true;
        container.memo = static_cast<std::uint32_t>(index);
    }
    void recalled(const Value& value)
    {
        if (value.isContainer())
            containers_[value.index].shared = true;
    }
    void other(PickleOpcode opcode);

    Value open(Type type);
    Container& filled(const Value& value, Type type);
    Value adopted(const Value& item, Type owner);
    std::optional<Value> record(const Value& item, const Container& container, Type owner);
    void recycle(const Value& item, Container& container);

    Records& records_;
    std::deque<Container> containers_;
    std::vector<std::uint32_t> spare_; ///< indices of containers for reuse
};

} // namespace headroom::snapshot
