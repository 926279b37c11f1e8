// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/pickle_machine.h"
#include "core/model/pickle.h"

namespace headroom {

/// Reads a pickle into a tree of values. Throws WrongPickle, which Pickle::read() turns into an Error.
class PickleReader : public PickleMachine<PickleReader, Pickle::Index>
{
public:
    static constexpr std::size_t longestName = 4096; ///< of a callable or a type

    explicit PickleReader(std::span<const std::byte> bytes)
        : PickleMachine(bytes)
    {
    }
    Pickle read();

private:
    friend class PickleMachine<PickleReader, Pickle::Index>;
    using Index = Pickle::Index;
    using Kind = Pickle::Kind;
    using Value = Pickle::Value;

    /// The extent of a value, nested values included.
    struct Extent
    {
        std::uint32_t depth = 1;
        std::uint64_t visits = 1; ///< number of values met when every reference is followed
        bool inside = false; ///< contained in another value: may not change any more
    };
    static constexpr int newestProtocol = 2;

    Index none() { return make({}); }
    Index boolean(bool value) { return make({Kind::boolean, value, {}, {}}); }
    Index integer(std::int64_t value) { return make({Kind::integer, value, {}, {}}); }
    Index real(std::string_view) { return make({Kind::real, 0, {}, {}}); }
    Index text(std::string_view text) { return make({Kind::text, 0, std::string(text), {}}); }
    Index bytes(std::string_view) { return none(); } // only in later protocols
    Index list() { return make({Kind::list, 0, {}, {}}); }
    Index dictionary() { return make({Kind::dictionary, 0, {}, {}}); }
    Index tuple(Items items);
    void append(Index list, Items items) { adopt(open(list, Kind::list), items); }
    void setItems(Index dictionary, Items items);
    void other(PickleOpcode opcode);

    Index make(Value value);
    Value& at(Index index) { return pickle_.values_[index]; }
    void adopt(Index owner, Items items); ///< appends values to another one
    Index open(Index container, Kind kind); ///< checks that the container has this kind and may still change

    Index global();
    Index reduce();
    Index makeObject();
    Index build();
    Index storage();
    Index tensor(const Value& arguments);
    Index typedList(Kind element, const Value& arguments);
    Index typeTag(const Value& arguments);
    std::vector<std::int64_t> integers(Index tuple);

    Pickle pickle_;
    std::vector<Extent> extents_; ///< by value
};

} // namespace headroom
