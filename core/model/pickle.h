// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"
#include "core/base/pickle_machine.h"

#include <c10/core/ScalarType.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace headroom {

/// A pickle of a TorchScript file (data.pkl, constants.pkl, traced_inputs.pkl) as a tree of values. Nothing in it is
/// run. read() accepts only the opcodes and callables that torch.jit.save writes, and checks everything that libtorch's
/// unpickler assumes without a check. So a pickle that read() accepts is safe to load.
class Pickle
{
public:
    using Index = std::uint32_t; ///< index of a value, or of a tensor

    enum class Type : std::uint8_t {
        none,
        boolean,
        integer,
        real, ///< the number is not kept
        complex,
        text,
        device,
        list,
        tuple,
        dictionary, ///< items: key, value, key, value, …
        tensor, ///< integer: the index in tensors()
        object, ///< text: the class; items: the object's state
        storage,
        function, ///< text: the name of a callable or a class
    };

    struct Value
    {
        Type type = Type::none;
        std::int64_t integer = 0; ///< the value of an integer, or 0 or 1 for a boolean
        std::string text;
        std::vector<Index> items;
    };

    /// A tensor's place in a storage.
    struct Tensor
    {
        at::ScalarType dtype = at::kFloat;
        std::string storage; ///< the name of the storage's record
        std::int64_t storageElements = 0;
        std::int64_t offset = 0;
        std::vector<std::int64_t> sizes;
        std::vector<std::int64_t> strides;
        bool requiresGrad = false;
    };

    /// Reads a pickle; `name` is used in messages. Errors (badInput) give the byte offset and the fault there.
    static Result<Pickle> read(std::span<const std::byte> bytes, const std::string& name);

    const Value& root() const { return values_[root_]; }
    const Value& value(Index index) const { return values_[index]; }
    const std::vector<Tensor>& tensors() const { return tensors_; }

    /// Returns the value of a dictionary's key; null if the key is missing.
    const Value* find(const Value& dictionary, std::string_view key) const;

private:
    friend class PickleReader;

    std::vector<Value> values_;
    std::vector<Tensor> tensors_;
    Index root_ = 0;
};

/// Reads a pickle into a tree of values. Throws WrongPickle, which Pickle::read() turns into an Error.
class PickleReader : public PickleMachine<PickleReader, Pickle::Index>
{
public:
    static constexpr std::size_t longestName = 4096; ///< characters of the name of a callable or a type

    explicit PickleReader(std::span<const std::byte> bytes)
        : PickleMachine(bytes)
    {
    }
    Pickle read();

private:
    friend class PickleMachine<PickleReader, Pickle::Index>;
    using Index = Pickle::Index;
    using Type = Pickle::Type;
    using Value = Pickle::Value;

    /// The extent of a value with nested values.
    struct Extent
    {
        std::uint32_t depth = 1;
        std::uint64_t visits = 1; ///< number of values that a reader meets by following every reference
        bool inside = false; ///< inside another value, and constant from now on
    };
    static constexpr int newestProtocol = 2;

    Index none() { return make({}); }
    Index boolean(bool value) { return make({Type::boolean, value, {}, {}}); }
    Index integer(std::int64_t value) { return make({Type::integer, value, {}, {}}); }
    Index real(std::string_view) { return make({Type::real, 0, {}, {}}); }
    Index text(std::string_view text) { return make({Type::text, 0, std::string(text), {}}); }
    Index bytes(std::string_view) { return none(); } // never called: protocol 2 has no opcode for this
    Index list() { return make({Type::list, 0, {}, {}}); }
    Index dictionary() { return make({Type::dictionary, 0, {}, {}}); }
    Index tuple(Items items);
    void append(Index list, Items items) { adopt(open(list, Type::list), items); }
    void setItems(Index dictionary, Items items);
    void other(PickleOpcode opcode);

    Index make(Value value);
    Value& at(Index index) { return pickle_.values_[index]; }
    void adopt(Index owner, Items items); ///< appends values to another value
    Index open(Index container, Type type); ///< returns the container if of this type and still open to changes

    Index global();
    Index reduce();
    Index makeObject();
    Index build();
    Index storage();
    Index tensor(const Value& arguments);
    Index typedList(Type element, const Value& arguments);
    Index typeTag(const Value& arguments);
    bool haveTypes(const std::vector<Index>& values, std::span<const Type> types) const;
    std::vector<std::int64_t> integers(Index tuple);

    Pickle pickle_;
    std::vector<Extent> extents_; ///< by value
};

} // namespace headroom
