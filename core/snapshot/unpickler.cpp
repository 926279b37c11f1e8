// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/snapshot/unpickler.h"

#include <algorithm>
#include <array>

namespace headroom::snapshot {

void Unpickler::other(PickleOpcode opcode)
{
    using Op = PickleOpcode;
    constexpr std::array calls{Op::global,     Op::stackGlobal, Op::reduce,     Op::build,
                               Op::instance,   Op::object,      Op::newObject,  Op::newObjectWithKeywords,
                               Op::extension1, Op::extension2,  Op::extension4, Op::persistentId};
    if (std::ranges::find(calls, opcode) != calls.end())
        throw WrongPickle{"asks to load or call a Python object, and no memory snapshot does that"};
    throw WrongPickle{"holds opcode " + std::to_string(static_cast<int>(opcode))
                      + ", and no memory snapshot does that"};
}

Value Unpickler::open(Type type)
{
    std::uint32_t index = 0;
    if (!spare_.empty()) {
        index = spare_.back();
        spare_.pop_back();
    } else {
        if (containers_.size() >= UINT32_MAX)
            throw WrongPickle{"holds more than 4 billion lists"};
        index = static_cast<std::uint32_t>(containers_.size());
        containers_.emplace_back();
    }
    return {type, index};
}

Value Unpickler::tuple(Items items)
{
    const Value made = open(Type::tuple);
    for (const Value& item : items)
        containers_[made.index].items.push_back(adopted(item, Type::tuple));
    return made;
}

Unpickler::Container& Unpickler::filled(const Value& value, Type type)
{
    if (value.type != type || containers_[value.index].inside)
        throw WrongPickle{"adds to something that is no open list or dictionary"};
    return containers_[value.index];
}

void Unpickler::append(const Value& list, Items items)
{
    Container& container = filled(list, Type::list);
    for (const Value& item : items)
        if (const Value inside = adopted(item, Type::list); inside.type != Type::dropped)
            container.items.push_back(inside);
}

void Unpickler::setItems(const Value& dictionary, Items items)
{
    Container& container = filled(dictionary, Type::dictionary);
    for (std::size_t i = 0; i < items.size(); i += 2) {
        container.items.push_back(adopted(items[i], Type::tuple));
        container.items.push_back(adopted(items[i + 1], Type::dictionary));
    }
}

/// Returns the value to store for an item of a container of type `owner`: its record if it is one, or the item.
Value Unpickler::adopted(const Value& item, Type owner)
{
    if (!item.isContainer())
        return item;
    Container& container = containers_[item.index];
    if (container.became.type != Type::none)
        return container.became;
    const std::optional<Value> made = record(item, container, owner);
    container.inside = true;
    if (!made) {
        container.shared = true; // so that recycle() does not reuse the container
        return item;
    }
    recycle(item, container);
    if (container.shared)
        container.became = *made;
    return *made;
}

std::optional<Value> Unpickler::record(const Value& item, const Container& container, Type owner)
{
    std::optional<Value> made;
    if (item.type == Type::dictionary && owner == Type::list)
        made = records_.dictionary(container.items, *this);
    else if (item.type == Type::list && owner == Type::dictionary)
        made = records_.list(container.items);
    if (made && container.memo != noMemo)
        memo()[container.memo] = *made;
    return made;
}

/// Empties the container of an item that became a record, for reuse if nothing refers to the container.
void Unpickler::recycle(const Value& item, Container& container)
{
    if (container.items.capacity() > mostItemsKept)
        std::vector<Value>().swap(container.items);
    container.items.clear();
    if (container.shared)
        return;
    container.memo = noMemo;
    container.inside = false;
    spare_.push_back(item.index);
}

namespace {

using Type = Value::Type;

/// The texts of Key's enumerators, in order.
constexpr std::array keys{"action",
                          "addr",
                          "size",
                          "stream",
                          "time_us",
                          "user_metadata",
                          "frames",
                          "device_free",
                          "name",
                          "filename",
                          "line",
                          "address",
                          "requested_size",
                          "state",
                          "blocks",
                          "device",
                          "total_size",
                          "segment_type",
                          "segment_pool_id",
                          "is_expandable",
                          "stage",
                          "segments",
                          "device_traces",
                          "allocator_settings",
                          "external_annotations",
                          "PYTORCH_CUDA_ALLOC_CONF",
                          "active_allocated",
                          "active_awaiting_free",
                          "active_pending_free",
                          "small",
                          "START"};
static_assert(keys.size() == static_cast<std::size_t>(Key::start) + 1);

constexpr Bytes largest = Bytes{1} << 60; ///< limit of the sum of all sizes
constexpr std::int64_t highest = std::int64_t{1} << 60; ///< limit of an address or a time

bool isKey(const Value& value, Key key)
{
    return value.type == Type::text && value.index == static_cast<std::uint32_t>(key);
}

std::int64_t integer(const Value& value, Key key)
{
    if (value.type != Type::integer && value.type != Type::boolean)
        throw WrongPickle{"holds something else than a whole number for '" + std::string(keys[std::size_t(key)]) + "'"};
    return value.integer;
}

std::uint64_t address(const Value& value, Key key)
{
    const std::int64_t address = integer(value, key);
    if (address < 0 || address > highest)
        throw WrongPickle{"holds an address that no device has"};
    return static_cast<std::uint64_t>(address);
}

Snapshot::Index text(const Value& value)
{
    return value.type == Type::text ? value.index : Snapshot::none;
}

Snapshot::Index stackOf(const Value& value)
{
    return value.type == Type::stack ? value.index : Snapshot::none;
}

Snapshot::Action action(const Value& value)
{
    if (value.type != Type::text)
        throw WrongPickle{"holds something else than a text for 'action'"};
    const std::size_t number = value.index - keys.size(); // wraps around for a key
    return number < allocatorActionNames.size() ? static_cast<Snapshot::Action>(number) : Snapshot::Action::other;
}

/// Calls visit(key, value) for the keys that a snapshot has.
template <class Visit>
void visitItems(std::span<const Value> items, Visit visit)
{
    for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
        if (items[i].type == Type::text && items[i].index < keys.size())
            visit(static_cast<Key>(items[i].index), items[i + 1]);
    }
}

template <class Rows>
std::uint32_t nextRow(const Rows& rows)
{
    if (rows.size() >= Snapshot::none)
        throw WrongPickle{"holds more than 4 billion records"};
    return static_cast<std::uint32_t>(rows.size());
}

} // namespace

Records::Records(SnapshotRange range)
{
    snapshot_.range = range;
    for (const char* key : keys)
        string(key);
    for (const char* action : allocatorActionNames)
        string(action);
    snapshot_.traces.emplace_back(); // takes the events of all devices until the lists of devices are known
}

std::uint32_t Records::string(std::string_view text)
{
    const auto [entry, isNew] = strings_.try_emplace(text, nextRow(snapshot_.strings));
    if (isNew)
        snapshot_.strings.push_back(text);
    return entry->second;
}

std::uint32_t Records::stream(std::int64_t handle)
{
    const auto wanted = static_cast<std::uint64_t>(handle);
    std::vector<std::uint64_t>& streams = snapshot_.streams;
    if (lastStream_ < streams.size() && streams[lastStream_] == wanted)
        return lastStream_;
    const auto found = std::ranges::find(streams, wanted);
    lastStream_ = static_cast<std::uint32_t>(found - streams.begin());
    if (found == streams.end()) {
        if (streams.size() >= 4096) // PyTorch has 32 streams for each priority
            throw WrongPickle{"names more than 4096 streams"};
        streams.push_back(wanted);
    }
    return lastStream_;
}

Bytes Records::size(const Value& value, Key key)
{
    const std::int64_t bytes = integer(value, key);
    if (bytes < 0 || bytes > largest - sizes_)
        throw WrongPickle{"holds " + std::to_string(bytes) + " bytes as '" + std::string(keys[std::size_t(key)]) + "'"};
    sizes_ += bytes;
    return bytes;
}

std::optional<Value> Records::dictionary(std::span<const Value> items, const Unpickler& unpickler)
{
    bool named = false;
    for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
        if (isKey(items[i], Key::action))
            return event(items);
        if (isKey(items[i], Key::filename))
            return frame(items);
        if (isKey(items[i], Key::blocks))
            return segment(items, unpickler);
        if (isKey(items[i], Key::state))
            return block(items);
        if (isKey(items[i], Key::stage))
            named = true;
    }
    return named ? std::optional(annotation(items)) : std::nullopt;
}

std::optional<Value> Records::event(std::span<const Value> items)
{
    Snapshot::Event event;
    bool whole = false;
    visitItems(items, [&](Key key, const Value& value) {
        if (key == Key::action) {
            event.action = action(value);
            whole = true;
        } else if (key == Key::addr || key == Key::deviceFree) {
            event.address = address(value, key);
        } else if (key == Key::size) {
            event.size = size(value, key);
        } else if (key == Key::stream) {
            event.stream = stream(integer(value, key));
        } else if (key == Key::timeUs) {
            event.microseconds = std::clamp<std::int64_t>(integer(value, key), 0, highest);
        } else if (key == Key::frames) {
            event.stack = stackOf(value);
        } else if (key == Key::userMetadata) {
            event.metadata = text(value);
        }
    });
    if (!whole)
        throw WrongPickle{"holds an event without an action"};
    if (snapshot_.eventCount++ == 0)
        snapshot_.firstMicroseconds = event.microseconds;
    if (snapshot_.ms(event) < snapshot_.range.fromMs)
        return Value{Type::dropped};
    std::vector<Snapshot::Event>& events = snapshot_.traces.front();
    const Value row{Type::event, nextRow(events)};
    events.push_back(event);
    return row;
}

Value Records::frame(std::span<const Value> items)
{
    Snapshot::Frame frame;
    visitItems(items, [&](Key key, const Value& value) {
        if (key == Key::name)
            frame.function = text(value);
        else if (key == Key::filename)
            frame.file = text(value);
        else if (key == Key::line)
            frame.line = static_cast<std::int32_t>(std::clamp<std::int64_t>(integer(value, key), 0, INT32_MAX));
    });
    const Value row{Type::frame, nextRow(snapshot_.frames)};
    snapshot_.frames.push_back(frame);
    return row;
}

std::optional<Value> Records::list(std::span<const Value> items)
{
    if (items.empty() || !std::ranges::all_of(items, [](const Value& item) { return item.type == Type::frame; }))
        return std::nullopt;
    std::uint64_t hash = items.size();
    for (const Value& item : items)
        hash = (hash ^ item.index) * 0x9e3779b97f4a7c15U + (hash >> 29);
    const auto same = [&](const auto& entry) {
        const std::span known = snapshot_.stack(entry.second);
        return std::ranges::equal(known, items, {}, {}, [](const Value& item) { return item.index; });
    };
    const auto [begin, end] = stacks_.equal_range(hash);
    if (const auto found = std::find_if(begin, end, same); found != end)
        return Value{Type::stack, found->second};
    const auto row = static_cast<std::uint32_t>(snapshot_.stackFirst.size() - 1);
    for (const Value& item : items)
        snapshot_.stackFrames.push_back(item.index);
    snapshot_.stackFirst.push_back(nextRow(snapshot_.stackFrames));
    stacks_.emplace(hash, row);
    return Value{Type::stack, row};
}

Value Records::block(std::span<const Value> items)
{
    Snapshot::Block block;
    bool requested = false;
    visitItems(items, [&](Key key, const Value& value) {
        if (key == Key::address) {
            block.address = address(value, key);
        } else if (key == Key::size) {
            block.size = size(value, key);
        } else if (key == Key::requestedSize) {
            block.requested = size(value, key);
            requested = true;
        } else if (key == Key::state) {
            block.awaitsFree = isKey(value, Key::activeAwaitingFree) || isKey(value, Key::activePendingFree);
            block.active = block.awaitsFree || isKey(value, Key::activeAllocated);
        } else if (key == Key::frames) {
            block.stack = stackOf(value);
        } else if (key == Key::userMetadata) {
            block.metadata = text(value);
        }
    });
    if (!requested || block.requested > block.size)
        block.requested = block.size;
    const Value row{Type::block, nextRow(snapshot_.blocks)};
    snapshot_.blocks.push_back(block);
    return row;
}

Value Records::segment(std::span<const Value> items, const Unpickler& unpickler)
{
    Snapshot::Segment segment;
    visitItems(items, [&](Key key, const Value& value) {
        if (key == Key::device) {
            segment.device = integer(value, key);
        } else if (key == Key::address) {
            segment.address = address(value, key);
        } else if (key == Key::totalSize) {
            segment.size = size(value, key);
        } else if (key == Key::stream) {
            segment.stream = stream(integer(value, key));
        } else if (key == Key::segmentType) {
            segment.small = isKey(value, Key::small);
        } else if (key == Key::isExpandable) {
            segment.expandable = value.type == Type::boolean && value.integer != 0;
        } else if (key == Key::segmentPoolId && value.isContainer()) {
            const std::span ids = unpickler.items(value);
            if (ids.size() == 2)
                segment.pool = {integer(ids[0], key), integer(ids[1], key)};
        } else if (key == Key::blocks && value.isContainer()) {
            for (const Value& item : unpickler.items(value)) {
                if (item.type != Type::block)
                    throw WrongPickle{"holds something else than blocks in a segment"};
                segment.blocks.push_back(item.index);
            }
        }
    });
    const Value row{Type::segment, nextRow(snapshot_.segments)};
    snapshot_.segments.push_back(std::move(segment));
    return row;
}

Value Records::annotation(std::span<const Value> items)
{
    Snapshot::Annotation annotation;
    visitItems(items, [&](Key key, const Value& value) {
        if (key == Key::name)
            annotation.name = text(value);
        else if (key == Key::device)
            annotation.device = integer(value, key);
        else if (key == Key::timeUs)
            annotation.microseconds = std::clamp<std::int64_t>(integer(value, key), 0, highest);
        else if (key == Key::stage)
            annotation.begins = isKey(value, Key::start);
    });
    const Value row{Type::annotation, nextRow(snapshot_.annotations)};
    snapshot_.annotations.push_back(annotation);
    return row;
}

} // namespace headroom::snapshot
