// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/pickle_input.h"
#include "core/model/pickle.h"

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace headroom {

/// Reads a pickle as the stack machine that it is a program for. Throws WrongPickle, which Pickle::read() makes an
/// Error of.
class PickleReader
{
public:
    static constexpr std::size_t longestName = 4096; ///< of a callable, or of a type

    explicit PickleReader(std::span<const std::byte> bytes)
        : input_(bytes)
    {
    }
    void run();
    std::size_t position() const { return input_.position(); }
    Pickle take() { return std::move(pickle_); }

private:
    using Index = Pickle::Index;
    using Kind = Pickle::Kind;
    using Value = Pickle::Value;

    using Opcode = PickleOpcode;
    /// What a value holds, all the way down.
    struct Extent
    {
        std::uint32_t depth = 1;
        std::uint64_t visits = 1; ///< values met by one that follows every reference
        bool inside = false; ///< of another value: it may not change any more
    };

    void execute(Opcode opcode);
    void executeData(Opcode opcode);

    void push(Value value);
    void pushInteger(std::int64_t integer) { push({Kind::integer, integer, {}, {}}); }
    void pushTuple(std::size_t count);
    Index pop();
    std::vector<Index> popToMark();
    Value& at(Index index) { return pickle_.values_[index]; }
    void adopt(Index owner, std::span<const Index> items); ///< puts values into another one
    Index container(Kind kind); ///< the one on top of the stack, of this kind and still open

    void put(std::size_t index);
    void get(std::size_t index);
    void global();
    void setItems(const std::vector<Index>& items);
    void reduce();
    void makeObject();
    void build();
    void storage();
    void tensor(const Value& arguments);
    void typedList(Kind element, const Value& arguments);
    void typeTag(const Value& arguments);
    std::vector<std::int64_t> integers(Index tuple);

    PickleInput input_;
    Pickle pickle_;
    std::vector<Extent> extents_; ///< of each value
    std::vector<Index> stack_;
    std::vector<std::size_t> marks_; ///< heights of the stack
    std::vector<Index> memo_;
    bool stopped_ = false;
};

} // namespace headroom
