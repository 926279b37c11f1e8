// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/model/pickle_reader.h"

#include <algorithm>

namespace headroom {
namespace {

constexpr std::uint32_t deepest = 256; ///< values inside values; a model's modules are nested some ten deep
constexpr std::uint64_t mostVisits = 1U << 28; ///< of values, by one that follows every reference

} // namespace

void PickleReader::run()
{
    if (input_.size() >= UINT32_MAX)
        throw WrongPickle{"is larger than 4 GiB"};
    if (input_.number<std::uint8_t>() != static_cast<std::uint8_t>(Opcode::protocol)
        || input_.number<std::uint8_t>() != 2)
        throw WrongPickle{"does not begin as a pickle of protocol 2"};
    while (!stopped_)
        execute(static_cast<Opcode>(input_.number<std::uint8_t>()));
    if (stack_.size() != 1 || !marks_.empty())
        throw WrongPickle{"ends with more than one value"};
    if (at(stack_.front()).kind == Kind::function || at(stack_.front()).kind == Kind::storage)
        throw WrongPickle{"is no value"};
    pickle_.root_ = stack_.front();
}

void PickleReader::execute(Opcode opcode)
{
    switch (opcode) {
    case Opcode::stop:
        stopped_ = true;
        break;
    case Opcode::mark:
        marks_.push_back(stack_.size());
        break;
    case Opcode::append: {
        const Index item = pop();
        adopt(container(Kind::list), {&item, 1});
        break;
    }
    case Opcode::appends: {
        const std::vector<Index> items = popToMark();
        adopt(container(Kind::list), items);
        break;
    }
    case Opcode::setItem: {
        const Index item = pop();
        setItems({pop(), item});
        break;
    }
    case Opcode::setItems:
        setItems(popToMark());
        break;
    case Opcode::tuple: {
        const std::vector<Index> items = popToMark();
        push({Kind::tuple, 0, {}, {}});
        adopt(stack_.back(), items);
        break;
    }
    case Opcode::binPut:
        put(input_.number<std::uint8_t>());
        break;
    case Opcode::longBinPut:
        put(input_.number<std::uint32_t>());
        break;
    case Opcode::binGet:
        get(input_.number<std::uint8_t>());
        break;
    case Opcode::longBinGet:
        get(input_.number<std::uint32_t>());
        break;
    case Opcode::global:
        global();
        break;
    case Opcode::reduce:
        reduce();
        break;
    case Opcode::newObject:
        makeObject();
        break;
    case Opcode::build:
        build();
        break;
    case Opcode::persistentId:
        storage();
        break;
    default:
        executeData(opcode);
    }
}

/// Opcodes that push a value of their own.
void PickleReader::executeData(Opcode opcode)
{
    switch (opcode) {
    case Opcode::none:
        push({});
        break;
    case Opcode::newTrue:
    case Opcode::newFalse:
        push({Kind::boolean, opcode == Opcode::newTrue, {}, {}});
        break;
    case Opcode::binInt:
        pushInteger(input_.number<std::int32_t>());
        break;
    case Opcode::binInt1:
        pushInteger(input_.number<std::uint8_t>());
        break;
    case Opcode::binInt2:
        pushInteger(input_.number<std::uint16_t>());
        break;
    case Opcode::long1:
        if (input_.number<std::uint8_t>() != sizeof(std::int64_t))
            throw WrongPickle{"holds an integer of another size than 8 bytes"};
        pushInteger(input_.number<std::int64_t>());
        break;
    case Opcode::binFloat:
        input_.text(sizeof(double));
        push({Kind::real, 0, {}, {}});
        break;
    case Opcode::binUnicode: {
        const auto size = input_.number<std::uint32_t>();
        push({Kind::text, 0, std::string(input_.text(size)), {}});
        break;
    }
    case Opcode::emptyList:
        push({Kind::list, 0, {}, {}});
        break;
    case Opcode::emptyTuple:
        push({Kind::tuple, 0, {}, {}});
        break;
    case Opcode::emptyDict:
        push({Kind::dictionary, 0, {}, {}});
        break;
    case Opcode::tuple1:
        pushTuple(1);
        break;
    case Opcode::tuple2:
        pushTuple(2);
        break;
    case Opcode::tuple3:
        pushTuple(3);
        break;
    default:
        throw WrongPickle{"holds opcode " + std::to_string(static_cast<int>(opcode))
                          + ", which torch.jit.save does not write"};
    }
}

void PickleReader::push(Value value)
{
    stack_.push_back(static_cast<Index>(pickle_.values_.size()));
    pickle_.values_.push_back(std::move(value));
    extents_.emplace_back();
}

void PickleReader::pushTuple(std::size_t count)
{
    std::vector<Index> items(count);
    for (std::size_t i = count; i > 0; --i)
        items[i - 1] = pop();
    push({Kind::tuple, 0, {}, {}});
    adopt(stack_.back(), items);
}

Pickle::Index PickleReader::pop()
{
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back()))
        throw WrongPickle{"takes a value that is not there"};
    const Index index = stack_.back();
    stack_.pop_back();
    return index;
}

std::vector<Pickle::Index> PickleReader::popToMark()
{
    if (marks_.empty())
        throw WrongPickle{"ends a group that has no beginning"};
    const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<Index> items(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    marks_.pop_back();
    return items;
}

void PickleReader::adopt(Index owner, std::span<const Index> items)
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
    if (extent.depth > deepest || extent.visits > mostVisits)
        throw WrongPickle{"holds values that are nested too deep"};
}

Pickle::Index PickleReader::container(Kind kind)
{
    const Index top = pop();
    stack_.push_back(top);
    if (at(top).kind != kind || extents_[top].inside)
        throw WrongPickle{"adds to something that is no open list or dictionary"};
    return top;
}

void PickleReader::put(std::size_t index)
{
    // libtorch's table grows to whatever index stands there; its own pickler counts.
    if (index != memo_.size())
        throw WrongPickle{"remembers values out of order"};
    const Index top = pop();
    stack_.push_back(top);
    memo_.push_back(top);
}

void PickleReader::get(std::size_t index)
{
    if (index >= memo_.size())
        throw WrongPickle{"refers to a value that is not there"};
    stack_.push_back(memo_[index]);
}

void PickleReader::setItems(const std::vector<Index>& items)
{
    const Index dictionary = container(Kind::dictionary);
    if (items.size() % 2 != 0)
        throw WrongPickle{"holds a dictionary's key without a value"};
    for (std::size_t i = 0; i < items.size(); i += 2) {
        const Kind key = at(items[i]).kind;
        if (key != Kind::text && key != Kind::integer && key != Kind::real && key != Kind::boolean)
            throw WrongPickle{"holds a dictionary with a key that is no text and no number"};
    }
    adopt(dictionary, items);
}

Result<Pickle> Pickle::read(std::span<const std::byte> bytes, const std::string& name)
{
    PickleReader reader(bytes);
    try {
        reader.run();
    } catch (const WrongPickle& wrong) {
        return badInput(name + " " + wrong.what + " (byte " + std::to_string(reader.position())
                        + "); the file is damaged, or not one that torch.jit.save wrote");
    }
    return reader.take();
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
