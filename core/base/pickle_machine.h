// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace headroom {

/// The opcodes of Python's pickle protocols 2 to 5 (Lib/pickletools.py). Opcodes of protocols 0 and 1 that later
/// protocols do not write are left out.
enum class PickleOpcode : unsigned char {
    mark = '(',
    stop = '.',
    pop = '0',
    popMark = '1',
    duplicate = '2',
    binBytes = 'B',
    shortBinBytes = 'C',
    binFloat = 'G',
    binInt = 'J',
    binInt1 = 'K',
    binInt2 = 'M',
    none = 'N',
    persistentId = 'Q',
    reduce = 'R',
    binUnicode = 'X',
    emptyList = ']',
    append = 'a',
    build = 'b',
    global = 'c',
    appends = 'e',
    binGet = 'h',
    instance = 'i',
    longBinGet = 'j',
    object = 'o',
    binPut = 'q',
    longBinPut = 'r',
    setItem = 's',
    tuple = 't',
    setItems = 'u',
    emptyDict = '}',
    emptyTuple = ')',
    protocol = 0x80,
    newObject = 0x81,
    extension1 = 0x82,
    extension2 = 0x83,
    extension4 = 0x84,
    tuple1 = 0x85,
    tuple2 = 0x86,
    tuple3 = 0x87,
    newTrue = 0x88,
    newFalse = 0x89,
    long1 = 0x8a,
    shortBinUnicode = 0x8c,
    binUnicode8 = 0x8d,
    newObjectWithKeywords = 0x92,
    stackGlobal = 0x93,
    memoize = 0x94,
    frame = 0x95,
};

/// Whether the machine runs the opcode, but torch.jit.save does not write the opcode and libtorch does not read the
/// opcode.
constexpr bool isBeyondTorchScript(PickleOpcode opcode)
{
    using enum PickleOpcode;
    return opcode == pop || opcode == popMark || opcode == binBytes || opcode == shortBinBytes
        || opcode == shortBinUnicode || opcode == binUnicode8 || opcode == memoize || opcode == frame;
}

/// The exception for a pickle that cannot be read; `what` does not name the position.
struct WrongPickle
{
    std::string what;
};

/// Reads the bytes of a pickle in order. Every function that reads throws WrongPickle if the bytes end too early.
class PickleInput
{
public:
    explicit PickleInput(std::span<const std::byte> bytes)
        : begin_(reinterpret_cast<const char*>(bytes.data()))
        , next_(begin_)
        , end_(begin_ + bytes.size())
    {
    }

    std::size_t position() const noexcept { return static_cast<std::size_t>(next_ - begin_); }
    std::size_t size() const noexcept { return static_cast<std::size_t>(end_ - begin_); }

    PickleOpcode opcode() { return static_cast<PickleOpcode>(number<std::uint8_t>()); }

    template <class Number>
    Number number()
    {
        Number value = 0;
        std::memcpy(&value, text(sizeof(Number)).data(), sizeof(Number));
        return value;
    }

    std::string_view text(std::uint64_t size)
    {
        if (size > static_cast<std::uint64_t>(end_ - next_))
            throw WrongPickle{"ends too early"};
        const std::string_view found(next_, size);
        next_ += size;
        return found;
    }

    /// Reads an integer of up to 9 bytes, little-endian two's complement. A ninth byte must be 0: Python writes a ninth
    /// byte for an address with the highest bit set.
    std::int64_t longInteger()
    {
        const std::string_view bytes = text(number<std::uint8_t>());
        if (bytes.size() > 9 || (bytes.size() == 9 && bytes.back() != '\0'))
            throw WrongPickle{"holds a number of more than 64 bits"};
        const bool negative
            = !bytes.empty() && bytes.size() < 9 && (static_cast<unsigned char>(bytes.back()) & 0x80) != 0;
        std::uint64_t value = negative ? ~std::uint64_t{0} : 0;
        for (std::size_t i = std::min<std::size_t>(bytes.size(), 8); i > 0; --i)
            value = (value << 8) | static_cast<unsigned char>(bytes[i - 1]);
        return static_cast<std::int64_t>(value);
    }

    /// Reads the text up to the next newline, and the newline. Throws if the text has more than `longest` bytes.
    std::string_view line(std::size_t longest)
    {
        const std::string_view rest(next_, static_cast<std::size_t>(end_ - next_));
        const std::size_t length = rest.find('\n');
        if (length == std::string_view::npos || length > longest)
            throw WrongPickle{"holds a name without an end"};
        next_ += length + 1;
        return rest.substr(0, length);
    }

private:
    const char* begin_;
    const char* next_;
    const char* end_;
};

/// Runs a pickle, which is a program of a stack machine. `Reader` derives from this class and has these functions:
///   none(), boolean(bool), integer(std::int64_t), real(bytes), text(bytes), bytes(bytes), list(), dictionary() and
///   tuple(items) create values,
///   append(list, items) and setItems(dictionary, items) fill containers; the items of a dictionary are key,
///   value, key, value, …
///   forgotten(value), remembered(value, index), recalled(value) report changes of the memo (optional),
///   other(opcode) handles an opcode that the machine does not run itself, such as a call.
/// If Reader::newestProtocol is 2, other() also gets every opcode that torch.jit.save does not write. Throws
/// WrongPickle.
template <class Reader, class Value>
class PickleMachine
{
public:
    /// Calls `goesOn` (may be empty) with the position every 4 MiB. Stops and returns false if `goesOn` returns false.
    bool run(const std::function<bool(std::size_t)>& goesOn = {})
    {
        constexpr std::size_t stretch = std::size_t{4} << 20; // bytes between two calls of goesOn
        constexpr int newest = Reader::newestProtocol;
        const std::string expected = newest == 2 ? "2" : "2 to " + std::to_string(newest);
        std::size_t question = goesOn ? stretch : SIZE_MAX;
        if (input_.opcode() != PickleOpcode::protocol)
            throw WrongPickle{"does not begin as a pickle of protocol " + expected};
        if (const auto protocol = input_.number<std::uint8_t>(); protocol < 2 || protocol > newest)
            throw WrongPickle{"is a pickle of protocol " + std::to_string(protocol) + ", expected " + expected};
        while (!stopped_) {
            if (input_.position() >= question) {
                question = input_.position() + stretch;
                if (!goesOn(input_.position()))
                    return false;
            }
            execute(input_.opcode());
        }
        if (stack_.size() != 1 || !marks_.empty())
            throw WrongPickle{"ends with several values"};
        return true;
    }
    std::size_t position() const noexcept { return input_.position(); }
    const Value& root() const { return stack_.front(); }

protected:
    using Items = std::span<const Value>;

    explicit PickleMachine(std::span<const std::byte> bytes)
        : input_(bytes)
    {
    }
    PickleInput& input() { return input_; }
    std::vector<Value>& memo() { return memo_; }
    void push(Value value) { stack_.push_back(value); }
    Value pop()
    {
        const Value top = stack_[below(1)];
        stack_.pop_back();
        return top;
    }

    void forgotten(const Value&) {}
    void remembered(const Value&, std::size_t) {}
    void recalled(const Value&) {}

private:
    Reader& reader() { return static_cast<Reader&>(*this); }

    [[gnu::always_inline]] void execute(PickleOpcode opcode)
    {
        using Op = PickleOpcode;
        if (Reader::newestProtocol == 2 && isBeyondTorchScript(opcode))
            return reader().other(opcode);
        switch (opcode) {
        case Op::binGet:
            return recall(input_.number<std::uint8_t>());
        case Op::longBinGet:
            return recall(input_.number<std::uint32_t>());
        case Op::binPut:
            return remember(input_.number<std::uint8_t>());
        case Op::longBinPut:
            return remember(input_.number<std::uint32_t>());
        case Op::memoize:
            return remember(memo_.size());
        case Op::mark:
            return marks_.push_back(stack_.size());
        case Op::emptyList:
            return push(reader().list());
        case Op::emptyDict:
            return push(reader().dictionary());
        case Op::appends:
            return append(popMark());
        case Op::append:
            return append(below(1));
        case Op::setItems:
            return setItems(popMark());
        case Op::setItem:
            return setItems(below(2));
        case Op::emptyTuple:
            return tuple(stack_.size());
        case Op::tuple1:
        case Op::tuple2:
        case Op::tuple3:
            return tuple(below(static_cast<std::size_t>(opcode) - static_cast<std::size_t>(Op::tuple1) + 1));
        case Op::tuple:
            return tuple(popMark());
        case Op::binInt:
            return push(reader().integer(input_.number<std::int32_t>()));
        case Op::binInt1:
            return push(reader().integer(input_.number<std::uint8_t>()));
        case Op::binInt2:
            return push(reader().integer(input_.number<std::uint16_t>()));
        case Op::long1:
            return push(reader().integer(input_.longInteger()));
        case Op::binFloat:
            return push(reader().real(input_.text(sizeof(double))));
        case Op::shortBinUnicode:
            return push(reader().text(input_.text(input_.number<std::uint8_t>())));
        case Op::binUnicode:
            return push(reader().text(input_.text(input_.number<std::uint32_t>())));
        case Op::binUnicode8:
            return push(reader().text(input_.text(input_.number<std::uint64_t>())));
        case Op::shortBinBytes:
            return push(reader().bytes(input_.text(input_.number<std::uint8_t>())));
        case Op::binBytes:
            return push(reader().bytes(input_.text(input_.number<std::uint32_t>())));
        case Op::none:
            return push(reader().none());
        case Op::newTrue:
        case Op::newFalse:
            return push(reader().boolean(opcode == Op::newTrue));
        case Op::pop:
            return stack_.resize(below(1));
        case Op::popMark:
            return stack_.resize(popMark());
        case Op::frame: // the length of the frame is for readers of streams only
            input_.text(sizeof(std::uint64_t));
            return;
        case Op::stop:
            stopped_ = true;
            return;
        default:
            return reader().other(opcode);
        }
    }

    /// Moves the values at `height` and above from the stack into the container below.
    template <class Add>
    void fill(std::size_t height, Add add)
    {
        if (height <= (marks_.empty() ? 0 : marks_.back()))
            throw WrongPickle{"takes a value that is not there"};
        add(stack_[height - 1], Items(stack_).subspan(height));
        stack_.resize(height);
    }
    void append(std::size_t height)
    {
        fill(height, [this](const Value& list, Items items) { reader().append(list, items); });
    }
    void setItems(std::size_t height)
    {
        if ((stack_.size() - height) % 2 != 0)
            throw WrongPickle{"holds a dictionary's key without a value"};
        fill(height, [this](const Value& dictionary, Items items) { reader().setItems(dictionary, items); });
    }

    void tuple(std::size_t height)
    {
        const Value made = reader().tuple(Items(stack_).subspan(height));
        stack_.resize(height);
        push(made);
    }

    void remember(std::size_t index)
    {
        const Value top = stack_[below(1)];
        if (index > memo_.size())
            throw WrongPickle{"remembers values out of order"};
        if (index == memo_.size()) {
            memo_.push_back(top);
        } else {
            reader().forgotten(memo_[index]);
            memo_[index] = top;
        }
        reader().remembered(top, index);
    }

    void recall(std::size_t index)
    {
        if (index >= memo_.size())
            throw WrongPickle{"refers to a value that is not there"};
        reader().recalled(memo_[index]);
        push(memo_[index]);
    }

    std::size_t popMark()
    {
        if (marks_.empty())
            throw WrongPickle{"ends a group that has no beginning"};
        const std::size_t height = marks_.back();
        marks_.pop_back();
        return height;
    }

    /// Returns the height of the stack without the last `count` values. Throws if the stack has fewer values.
    std::size_t below(std::size_t count) const
    {
        const std::size_t floor = marks_.empty() ? 0 : marks_.back();
        if (stack_.size() < floor + count)
            throw WrongPickle{"takes a value that is not there"};
        return stack_.size() - count;
    }

    PickleInput input_;
    std::vector<Value> stack_;
    std::vector<std::size_t> marks_; ///< height of the stack at each open mark
    std::vector<Value> memo_;
    bool stopped_ = false;
};

} // namespace headroom
