// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cost/op_signature.h"

#include <algorithm>
#include <optional>

namespace headroom {
namespace {

/// A value begins with a word: a tag in the low byte, a count in the other bytes.
enum Tag : std::int64_t { tagNone, tagTensor, tagTensors, tagManyTensors, tagIntegers, tagResults };
constexpr int tagBits = 8;
/// Bit above a tensor's element type and bytes per element: the tensor is in the CPU's memory.
constexpr std::int64_t hostBit = 1 << (2 * tagBits);

constexpr std::int64_t tagged(Tag tag, std::int64_t count)
{
    return static_cast<std::int64_t>(tag) | count << tagBits;
}

/// Reads values up to the end or to an invalid value.
class Decoder
{
public:
    explicit Decoder(std::span<const std::int64_t> values)
        : values_(values)
    {
    }

    std::optional<std::int64_t> next()
    {
        if (at_ >= values_.size())
            return std::nullopt;
        return values_[at_++];
    }

    std::optional<std::vector<std::int64_t>> list(std::int64_t count)
    {
        if (count < 0 || static_cast<std::uint64_t>(count) > values_.size() - at_)
            return std::nullopt;
        const auto begin = values_.begin() + static_cast<std::ptrdiff_t>(at_);
        at_ += static_cast<std::size_t>(count);
        return std::vector<std::int64_t>(begin, begin + count);
    }

    /// After the tag: element type and bytes an element, sizes, strides.
    std::optional<TensorShape> tensor(std::int64_t dimensions)
    {
        const auto type = next();
        auto sizes = list(dimensions);
        auto strides = sizes ? list(dimensions) : std::nullopt;
        if (!type || !strides || (*type & 0xff) >= static_cast<std::int64_t>(dtypeCount))
            return std::nullopt;
        return TensorShape{*std::move(sizes), *std::move(strides), static_cast<DType>(*type & 0xff),
                           static_cast<int>(*type >> tagBits & 0xff), (*type & hostBit) != 0};
    }

private:
    std::span<const std::int64_t> values_;
    std::size_t at_ = 0;
};

using Value = OpSignature::Value;

std::optional<Value> decodedValue(Decoder& decoder, std::int64_t head)
{
    const std::int64_t count = head >> tagBits;
    Value value;
    const auto addTensor = [&](std::optional<TensorShape> tensor) {
        if (tensor)
            value.tensors.push_back(*std::move(tensor));
        return tensor.has_value();
    };
    switch (head & 0xff) {
    case tagNone:
        return value;
    case tagTensor:
        value.kind = Value::ValueType::tensor;
        return addTensor(decoder.tensor(count)) ? std::optional(value) : std::nullopt;
    case tagTensors:
        value.kind = Value::ValueType::tensors;
        for (std::int64_t i = 0; i < count; ++i) {
            const auto inner = decoder.next();
            if (!inner || (*inner & 0xff) != tagTensor || !addTensor(decoder.tensor(*inner >> tagBits)))
                return std::nullopt;
        }
        return value;
    case tagManyTensors: {
        value.kind = Value::ValueType::manyTensors;
        value.integers = {count};
        const auto inner = decoder.next();
        return inner && addTensor(decoder.tensor(*inner >> tagBits)) ? std::optional(value) : std::nullopt;
    }
    case tagIntegers: {
        value.kind = Value::ValueType::integers;
        auto integers = decoder.list(count);
        if (!integers)
            return std::nullopt;
        value.integers = *std::move(integers);
        return value;
    }
    default:
        return std::nullopt;
    }
}

const TensorShape* tensorIn(const std::vector<Value>& values, std::size_t position) noexcept
{
    return position < values.size() && !values[position].tensors.empty() ? &values[position].tensors.front() : nullptr;
}

} // namespace

const TensorShape* OpSignature::tensor(std::size_t argument) const noexcept
{
    return tensorIn(arguments, argument);
}

const TensorShape* OpSignature::result(std::size_t position) const noexcept
{
    return tensorIn(results, position);
}

std::int64_t OpSignature::integer(std::size_t argument, std::size_t element, std::int64_t otherwise) const noexcept
{
    return argument < arguments.size() && element < arguments[argument].integers.size()
        ? arguments[argument].integers[element]
        : otherwise;
}

SignatureEncoder::SignatureEncoder(std::uint8_t modes)
{
    values_.push_back(modes);
}

void SignatureEncoder::none()
{
    values_.push_back(tagNone);
}

void SignatureEncoder::tensor(const TensorShape& tensor)
{
    values_.push_back(tagged(tagTensor, static_cast<std::int64_t>(tensor.sizes.size())));
    values_.push_back(static_cast<std::int64_t>(tensor.dtype) | std::int64_t{tensor.itemSize} << tagBits
                      | (tensor.onHost ? hostBit : 0));
    values_.insert(values_.end(), tensor.sizes.begin(), tensor.sizes.end());
    if (tensor.strides.size() == tensor.sizes.size()) {
        values_.insert(values_.end(), tensor.strides.begin(), tensor.strides.end());
        return;
    }
    // Without strides the tensor is contiguous.
    const std::size_t first = values_.size();
    values_.resize(first + tensor.sizes.size(), 1);
    for (std::size_t i = tensor.sizes.size(); i-- > 1;)
        values_[first + i - 1] = values_[first + i] * std::max<std::int64_t>(tensor.sizes[i], 1);
}

void SignatureEncoder::beginTensors(std::size_t count)
{
    values_.push_back(tagged(tagTensors, static_cast<std::int64_t>(count)));
}

void SignatureEncoder::manyTensors(std::size_t count, const TensorShape& together)
{
    values_.push_back(tagged(tagManyTensors, static_cast<std::int64_t>(count)));
    tensor(together);
}

void SignatureEncoder::integers(std::span<const std::int64_t> values)
{
    values_.push_back(tagged(tagIntegers, static_cast<std::int64_t>(values.size())));
    values_.insert(values_.end(), values.begin(), values.end());
}

void SignatureEncoder::results()
{
    values_.push_back(tagResults);
}

std::vector<std::int64_t> encoded(const OpSignature& signature)
{
    SignatureEncoder encoder(signature.modes);
    const auto add = [&](const Value& value) {
        switch (value.kind) {
        case Value::ValueType::none:
            return encoder.none();
        case Value::ValueType::tensor:
            return encoder.tensor(value.tensors.front());
        case Value::ValueType::tensors:
            encoder.beginTensors(value.tensors.size());
            for (const TensorShape& tensor : value.tensors)
                encoder.tensor(tensor);
            return;
        case Value::ValueType::manyTensors:
            return encoder.manyTensors(static_cast<std::size_t>(value.integers.front()), value.tensors.front());
        case Value::ValueType::integers:
            return encoder.integers(value.integers);
        }
    };
    for (const Value& value : signature.arguments)
        add(value);
    encoder.results();
    for (const Value& value : signature.results)
        add(value);
    const auto values = encoder.values();
    return {values.begin(), values.end()};
}

OpSignature decodedSignature(std::span<const std::int64_t> values)
{
    Decoder decoder(values);
    OpSignature signature;
    signature.modes = static_cast<std::uint8_t>(decoder.next().value_or(0));
    std::vector<Value>* list = &signature.arguments;
    while (const auto head = decoder.next()) {
        if (*head == tagResults) {
            list = &signature.results;
            continue;
        }
        auto value = decodedValue(decoder, *head);
        if (!value)
            break;
        list->push_back(*std::move(value));
    }
    return signature;
}

} // namespace headroom
