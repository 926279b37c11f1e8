// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace headroom {

/// The instructions of Python's pickles, protocols 0 to 5 (Lib/pickletools.py), that a reader may meet. Those of
/// protocols 0 and 1 that later ones do not write are left out.
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

/// What is wrong with a pickle, without the place.
struct WrongPickle
{
    std::string what;
};

/// The bytes of a pickle, read one after the other. Throws WrongPickle where they end too early.
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

    /// Up to a line end, which is taken too.
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

} // namespace headroom
