// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/model/pickle_reader.h"

#include <algorithm>

namespace headroom {
namespace {

constexpr std::uint32_t mostDepth = 256; ///< levels of nested values; a model has about ten
constexpr std::uint64_t mostVisits = 1U << 28; ///< values that a reader meets if it follows every reference

} // namespace

Pickle PickleReader::read()
{
    if (input().size() >= UINT32_MAX)
        throw WrongPickle{"is larger than 4 GiB"};
    run();
    if (at(root()).kind == Kind::function || at(root()).kind == Kind::storage)
        throw WrongPickle{"is no value"};
    pickle_.root_ = root();
    return std::move(pickle_);
}

void PickleReader::other(PickleOpcode opcode)
{
    switch (opcode) {
    case PickleOpcode::global:
        return push(global());
    case PickleOpcode::reduce:
        return push(reduce());
    case PickleOpcode::newObject:
        return push(makeObject());
    case PickleOpcode::build:
        return push(build());
    case PickleOpcode::persistentId:
        return push(storage());
    default:
        throw WrongPickle{"holds opcode " + std::to_string(static_cast<int>(opcode))
                          + ", which torch.jit.save does not write"};
    }
}

Pickle::Index PickleReader::make(Value value)
{
    pickle_.values_.push_back(std::move(value));
    extents_.emplace_back();
    return static_cast<Index>(pickle_.values_.size() - 1);
}

Pickle::Index PickleReader::tuple(Items items)
{
    const Index made = make({Kind::tuple, 0, {}, {}});
    adopt(made, items);
    return made;
}

void PickleReader::adopt(Index owner, Items items)
{
    Extent& extent = extents_[owner];
    for (const Index item : items) {
        const bool inTuple = at(owner).kind == Kind::tuple;
        if (item == owner || (at(item).kind == Kind::function && !inTuple)
            || (at(item).kind == Kind::storage && !inTuple))
            throw WrongPickle{"holds a value where it cannot be"};
        extents_[item].inside = true;
        extent.depth = std::max(extent.depth, extents_[item].depth + 1);
        extent.visits = std::min(extent.visits + extents_[item].visits, mostVisits + 1);
        at(owner).items.push_back(item);
    }
    if (extent.depth > mostDepth || extent.visits > mostVisits)
        throw WrongPickle{"holds values that are nested too deep"};
}

Pickle::Index PickleReader::open(Index container, Kind kind)
{
    if (at(container).kind != kind || extents_[container].inside)
        throw WrongPickle{"adds to something that is no open list or dictionary"};
    return container;
}

void PickleReader::setItems(Index dictionary, Items items)
{
    for (std::size_t i = 0; i < items.size(); i += 2) {
        const Kind key = at(items[i]).kind;
        if (key != Kind::text && key != Kind::integer && key != Kind::real && key != Kind::boolean)
            throw WrongPickle{"holds a dictionary with a key that is no text and no number"};
    }
    adopt(open(dictionary, Kind::dictionary), items);
}

Result<Pickle> Pickle::read(std::span<const std::byte> bytes, const std::string& name)
{
    PickleReader reader(bytes);
    try {
        return reader.read();
    } catch (const WrongPickle& wrong) {
        return badInput(name + " " + wrong.what + " (byte " + std::to_string(reader.position())
                        + "); the file is damaged, or not one that torch.jit.save wrote");
    }
}

const Pickle::Value* Pickle::find(const Value& dictionary, std::string_view key) const
{
    if (dictionary.kind != Kind::dictionary)
        return nullptr;
    for (std::size_t i = 0; i + 1 < dictionary.items.size(); i += 2)
        if (values_[dictionary.items[i]].kind == Kind::text && values_[dictionary.items[i]].text == key)
            return &values_[dictionary.items[i + 1]];
    return nullptr;
}

} // namespace headroom
