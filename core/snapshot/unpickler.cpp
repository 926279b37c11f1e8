// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/snapshot/unpickler.h"

#include <algorithm>
#include <bit>

namespace headroom::snapshot {

namespace {

using Kind = Value::Kind;
using Op = PickleOpcode;

bool callsPython(Op opcode)
{
    switch (opcode) {
    case Op::global:
    case Op::stackGlobal:
    case Op::reduce:
    case Op::build:
    case Op::instance:
    case Op::object:
    case Op::newObject:
    case Op::newObjectWithKeywords:
    case Op::extension1:
    case Op::extension2:
    case Op::extension4:
    case Op::persistentId:
        return true;
    default:
        return false;
    }
}

} // namespace

bool Unpickler::run(const std::function<bool(std::size_t)>& goesOn)
{
    constexpr std::size_t stretch = std::size_t{4} << 20; // bytes between two questions
    std::size_t question = goesOn ? stretch : SIZE_MAX;
    if (input_.opcode() != Op::protocol)
        throw WrongPickle{"does not begin as a pickle of protocol 2 to 5"};
    if (const auto protocol = input_.number<std::uint8_t>(); protocol < 2 || protocol > 5)
        throw WrongPickle{"is a pickle of protocol " + std::to_string(protocol) + ", expected 2 to 5"};
    while (!stopped_) {
        if (input_.position() >= question) {
            question = input_.position() + stretch;
            if (!goesOn(input_.position()))
                return false;
        }
        const Op opcode = input_.opcode();
        switch (opcode) { // the frequent ones
        case Op::binGet:
            recall(input_.number<std::uint8_t>());
            break;
        case Op::longBinGet:
            recall(input_.number<std::uint32_t>());
            break;
        case Op::memoize:
            remember(memo_.size());
            break;
        case Op::binPut:
            remember(input_.number<std::uint8_t>());
            break;
        case Op::longBinPut:
            remember(input_.number<std::uint32_t>());
            break;
        case Op::mark:
            marks_.push_back(stack_.size());
            break;
        case Op::emptyList:
            open(Kind::list);
            break;
        case Op::emptyDict:
            open(Kind::dictionary);
            break;
        case Op::appends:
            append(popMark());
            break;
        case Op::append:
            append(below(1));
            break;
        case Op::setItems:
            setItems(popMark());
            break;
        case Op::setItem:
            setItems(below(2));
            break;
        default:
            executeData(opcode);
        }
    }
    if (stack_.size() != 1 || !marks_.empty())
        throw WrongPickle{"ends with more than one value"};
    return true;
}

void Unpickler::executeData(Op opcode)
{
    switch (opcode) {
    case Op::binInt:
        integer(input_.number<std::int32_t>());
        break;
    case Op::binInt1:
        integer(input_.number<std::uint8_t>());
        break;
    case Op::binInt2:
        integer(input_.number<std::uint16_t>());
        break;
    case Op::long1:
        longInteger();
        break;
    case Op::binFloat:
        stack_.push_back(
            {Kind::real, 0, std::bit_cast<std::int64_t>(__builtin_bswap64(input_.number<std::uint64_t>()))});
        break;
    case Op::none:
        stack_.emplace_back();
        break;
    case Op::newTrue:
    case Op::newFalse:
        stack_.push_back({Kind::boolean, 0, opcode == Op::newTrue});
        break;
    case Op::emptyTuple:
        open(Kind::tuple);
        break;
    case Op::tuple1:
    case Op::tuple2:
    case Op::tuple3:
        tuple(below(static_cast<std::size_t>(opcode) - static_cast<std::size_t>(Op::tuple1) + 1));
        break;
    case Op::tuple:
        tuple(popMark());
        break;
    default:
        executeText(opcode);
    }
}

void Unpickler::executeText(Op opcode)
{
    switch (opcode) {
    case Op::shortBinUnicode:
        text(input_.number<std::uint8_t>());
        break;
    case Op::binUnicode:
        text(input_.number<std::uint32_t>());
        break;
    case Op::binUnicode8:
        text(input_.number<std::uint64_t>());
        break;
    case Op::shortBinBytes:
        input_.text(input_.number<std::uint8_t>());
        stack_.push_back({Kind::bytes});
        break;
    case Op::binBytes:
        input_.text(input_.number<std::uint32_t>());
        stack_.push_back({Kind::bytes});
        break;
    default:
        executeOther(opcode);
    }
}

void Unpickler::executeOther(Op opcode)
{
    switch (opcode) {
    case Op::stop:
        stopped_ = true;
        break;
    case Op::frame: // says how many bytes belong together, which matters to readers of streams only
        input_.number<std::uint64_t>();
        break;
    case Op::pop:
        stack_.resize(below(1));
        break;
    case Op::popMark:
        stack_.resize(popMark());
        break;
    default:
        if (callsPython(opcode))
            throw WrongPickle{"asks to load or call a Python object, which a memory snapshot does not"};
        throw WrongPickle{"holds opcode " + std::to_string(static_cast<int>(opcode))
                          + ", which a memory snapshot does not"};
    }
}

/// Little-endian two's complement of up to 9 bytes: an address may have the highest of 64 bits set.
void Unpickler::longInteger()
{
    const std::string_view bytes = input_.text(input_.number<std::uint8_t>());
    if (bytes.size() > 9 || (bytes.size() == 9 && bytes.back() != '\0'))
        throw WrongPickle{"holds a number of more than 64 bits"};
    const bool negative = !bytes.empty() && bytes.size() < 9 && (static_cast<unsigned char>(bytes.back()) & 0x80) != 0;
    std::uint64_t value = negative ? ~std::uint64_t{0} : 0;
    for (std::size_t i = std::min<std::size_t>(bytes.size(), 8); i > 0; --i)
        value = (value << 8) | static_cast<unsigned char>(bytes[i - 1]);
    integer(static_cast<std::int64_t>(value));
}

void Unpickler::text(std::uint64_t size)
{
    stack_.push_back({Kind::text, records_.string(input_.text(size))});
}

void Unpickler::open(Kind kind)
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
    stack_.push_back({kind, index});
}

void Unpickler::tuple(std::size_t height)
{
    open(Kind::tuple);
    const Value made = stack_.back();
    stack_.pop_back();
    Container& container = containers_[made.index];
    for (std::size_t i = height; i < stack_.size(); ++i)
        container.items.push_back(adopted(stack_[i], Kind::tuple));
    stack_.resize(height);
    stack_.push_back(made);
}

Unpickler::Container& Unpickler::target(std::size_t height, Kind kind)
{
    const std::size_t floor = marks_.empty() ? 0 : marks_.back();
    if (height <= floor)
        throw WrongPickle{"takes a value that is not there"};
    const Value& value = stack_[height - 1];
    if (value.kind != kind || containers_[value.index].inside)
        throw WrongPickle{"adds to something that is no open list or dictionary"};
    return containers_[value.index];
}

void Unpickler::append(std::size_t height)
{
    Container& list = target(height, Kind::list);
    for (std::size_t i = height; i < stack_.size(); ++i) {
        const Value item = adopted(stack_[i], Kind::list);
        if (item.kind != Kind::dropped)
            list.items.push_back(item);
    }
    stack_.resize(height);
}

void Unpickler::setItems(std::size_t height)
{
    Container& dictionary = target(height, Kind::dictionary);
    if ((stack_.size() - height) % 2 != 0)
        throw WrongPickle{"holds a dictionary's key without a value"};
    for (std::size_t i = height; i < stack_.size(); i += 2) {
        dictionary.items.push_back(adopted(stack_[i], Kind::tuple));
        dictionary.items.push_back(adopted(stack_[i + 1], Kind::dictionary));
    }
    stack_.resize(height);
}

/// The item as it stands inside a container of kind `owner`: a record where it is one.
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
        container.shared = true; // it keeps its place
        return item;
    }
    recycle(item, container);
    if (container.shared)
        container.became = *made;
    return *made;
}

std::optional<Value> Unpickler::record(const Value& item, const Container& container, Kind owner)
{
    if (item.kind == Kind::dictionary && owner == Kind::list) {
        const auto itemsOf
            = [](const void* self, const Value& value) { return static_cast<const Unpickler*>(self)->items(value); };
        const std::optional<Value> made = records_.dictionary(container.items, this, itemsOf);
        if (made && container.memo != noMemo)
            memo_[container.memo] = *made;
        return made;
    }
    if (item.kind == Kind::list && owner == Kind::dictionary) {
        const std::optional<Value> made = records_.list(container.items);
        if (made && container.memo != noMemo)
            memo_[container.memo] = *made;
        return made;
    }
    return std::nullopt;
}

/// Nothing refers to the container any more: its place, and mostly its memory, is used again.
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

void Unpickler::remember(std::size_t index)
{
    const Value top = stack_[below(1)];
    if (index > memo_.size())
        throw WrongPickle{"remembers values out of order"};
    if (index == memo_.size()) {
        memo_.emplace_back();
    } else if (memo_[index].isContainer()) {
        Container& old = containers_[memo_[index].index];
        old.shared = true;
        old.memo = noMemo;
    }
    memo_[index] = top;
    if (!top.isContainer())
        return;
    Container& container = containers_[top.index];
    if (container.memo != noMemo)
        container.shared = true;
    container.memo = static_cast<std::uint32_t>(index);
}

void Unpickler::recall(std::size_t index)
{
    if (index >= memo_.size())
        throw WrongPickle{"refers to a value that is not there"};
    const Value& value = memo_[index];
    if (value.isContainer())
        containers_[value.index].shared = true;
    stack_.push_back(value);
}

std::size_t Unpickler::popMark()
{
    if (marks_.empty())
        throw WrongPickle{"ends a group that has no beginning"};
    const std::size_t height = marks_.back();
    marks_.pop_back();
    return height;
}

std::size_t Unpickler::below(std::size_t count) const
{
    const std::size_t floor = marks_.empty() ? 0 : marks_.back();
    if (stack_.size() < floor + count)
        throw WrongPickle{"takes a value that is not there"};
    return stack_.size() - count;
}

} // namespace headroom::snapshot
