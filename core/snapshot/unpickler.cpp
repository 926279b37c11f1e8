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
        throw WrongPickle{"asks to load or call a Python object, which a memory snapshot does not"};
    throw WrongPickle{"holds opcode " + std::to_string(static_cast<int>(opcode))
                      + ", which a memory snapshot does not"};
}

Value Unpickler::open(Kind kind)
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
    return {kind, index};
}

Value Unpickler::tuple(Items items)
{
    const Value made = open(Kind::tuple);
    for (const Value& item : items)
        containers_[made.index].items.push_back(adopted(item, Kind::tuple));
    return made;
}

Unpickler::Container& Unpickler::filled(const Value& value, Kind kind)
{
    if (value.kind != kind || containers_[value.index].inside)
        throw WrongPickle{"adds to something that is no open list or dictionary"};
    return containers_[value.index];
}

void Unpickler::append(const Value& list, Items items)
{
    Container& container = filled(list, Kind::list);
    for (const Value& item : items)
        if (const Value inside = adopted(item, Kind::list); inside.kind != Kind::dropped)
            container.items.push_back(inside);
}

void Unpickler::setItems(const Value& dictionary, Items items)
{
    Container& container = filled(dictionary, Kind::dictionary);
    for (std::size_t i = 0; i < items.size(); i += 2) {
        container.items.push_back(adopted(items[i], Kind::tuple));
        container.items.push_back(adopted(items[i + 1], Kind::dictionary));
    }
}

/// Returns the value to store for an item of a container of kind `owner`: its record if it is one, or the item.
Value Unpickler::adopted(const Value& item, Kind owner)
{
    if (!item.isContainer())
        return item;
    Container& container = containers_[item.index];
    if (container.became.kind != Kind::none)
        return container.became;
    const std::optional<Value> made = record(item, container, owner);
    container.inside = true;
    if (!made) {
        container.shared = true; // so that recycle() does not reuse it
        return item;
    }
    recycle(item, container);
    if (container.shared)
        container.became = *made;
    return *made;
}

std::optional<Value> Unpickler::record(const Value& item, const Container& container, Kind owner)
{
    std::optional<Value> made;
    if (item.kind == Kind::dictionary && owner == Kind::list)
        made = records_.dictionary(container.items, *this);
    else if (item.kind == Kind::list && owner == Kind::dictionary)
        made = records_.list(container.items);
    if (made && container.memo != noMemo)
        memo()[container.memo] = *made;
    return made;
}

/// Empties the container of an item that became a record, and reuses it if nothing refers to it.
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

} // namespace headroom::snapshot
