// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"

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

    enum class Kind : std::uint8_t {
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
        Kind kind = Kind::none;
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

} // namespace headroom
