// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/pickle_input.h"
#include "core/snapshot/records.h"

#include <deque>
#include <functional>
#include <span>
#include <vector>

namespace headroom::snapshot {

/// Runs the stack machine of Python's pickles on plain data alone: numbers, texts, lists, tuples and dictionaries. It
/// knows no instruction that names, makes or calls an object. A dictionary or list becomes a record of the snapshot as
/// soon as it is put into another one, and its place is used again, so that memory grows with records, not with values.
/// Throws WrongPickle.
class Unpickler
{
public:
    Unpickler(std::span<const std::byte> bytes, Records& records)
        : input_(bytes)
        , records_(records)
    {
    }

    /// `goesOn` (may be empty) is asked once in a while, with the position; after a false, run() returns false.
    bool run(const std::function<bool(std::size_t)>& goesOn = {});
    std::size_t position() const noexcept { return input_.position(); }

    const Value& root() const { return stack_.front(); }
    std::span<const Value> items(const Value& container) const { return containers_[container.index].items; }

private:
    /// A list, tuple or dictionary whose items are not records yet.
    struct Container
    {
        std::vector<Value> items; ///< of a dictionary: key, value, key, value, …
        Value became; ///< the record; kind none: not yet
        std::uint32_t memo = noMemo;
        bool inside = false; ///< of another one: it may not change any more
        bool shared = false; ///< more than the stack and one memo entry may refer to it
    };
    static constexpr std::uint32_t noMemo = UINT32_MAX;
    static constexpr std::size_t mostItemsKept = 64; ///< of a container whose place is used again

    void executeData(PickleOpcode opcode);
    void executeText(PickleOpcode opcode);
    void executeOther(PickleOpcode opcode);
    void integer(std::int64_t value) { stack_.push_back({Value::Kind::integer, 0, value}); }
    void longInteger();
    void text(std::uint64_t size);
    void open(Value::Kind kind);
    void tuple(std::size_t height);
    void append(std::size_t height);
    void setItems(std::size_t height);
    void remember(std::size_t index);
    void recall(std::size_t index);
    std::size_t popMark();
    std::size_t below(std::size_t count) const; ///< height of the stack without its last values

    Container& target(std::size_t height, Value::Kind kind);
    Value adopted(const Value& item, Value::Kind owner);
    std::optional<Value> record(const Value& item, const Container& container, Value::Kind owner);
    void recycle(const Value& item, Container& container);

    PickleInput input_;
    Records& records_;
    std::vector<Value> stack_;
    std::vector<std::size_t> marks_; ///< heights of the stack
    std::vector<Value> memo_;
    std::deque<Container> containers_;
    std::vector<std::uint32_t> spare_; ///< containers to be used again
    bool stopped_ = false;
};

} // namespace headroom::snapshot
