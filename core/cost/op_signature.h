// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/cost/roofline.h"

#include <cstdint>
#include <span>
#include <vector>

namespace headroom {

/// PyTorch's settings that select kernels, at the time an op ran, combined by bitwise or.
enum OpMode : std::uint8_t {
    matmulTF32 = 1, ///< torch.backends.cuda.matmul.allow_tf32
    convolutionTF32 = 2, ///< torch.backends.cudnn.allow_tf32
    deterministicKernels = 4, ///< torch.use_deterministic_algorithms
};

/// The arguments and results of an op that decide the op's time on any GPU. A step has encoded signatures
/// (StepTrace::Signatures); equal signatures share a row.
struct OpSignature
{
    struct Value
    {
        enum class ValueType : std::uint8_t {
            none, ///< not given, or of no influence on the time
            tensor,
            tensors, ///< a list of tensors
            manyTensors, ///< a long list: `integers` has its length, `tensors` a single tensor with the elements of all
            integers, ///< a number or a list; a boolean is 0 or 1, a floating-point number other than 0 is 1
        };
        ValueType kind = ValueType::none;
        std::vector<TensorShape> tensors;
        std::vector<std::int64_t> integers;

        bool operator==(const Value&) const = default;
    };

    std::uint8_t modes = 0; ///< OpMode
    std::vector<Value> arguments; ///< by position in the op's schema
    std::vector<Value> results;

    const TensorShape* tensor(std::size_t argument) const noexcept; ///< null: no tensor at this position
    std::int64_t integer(std::size_t argument, std::size_t element = 0, std::int64_t otherwise = 0) const noexcept;
    const TensorShape* result(std::size_t position = 0) const noexcept;

    bool operator==(const OpSignature&) const = default;
};

/// Encodes a signature value by value, in the order of the schema, without making an OpSignature.
class SignatureEncoder
{
public:
    explicit SignatureEncoder(std::uint8_t modes = 0);

    void setModes(std::uint8_t modes) noexcept { values_.front() = modes; }
    void none();
    void tensor(const TensorShape& tensor); ///< empty strides: contiguous
    void beginTensors(std::size_t count); ///< `count` calls of tensor() follow
    void manyTensors(std::size_t count, const TensorShape& together);
    void integers(std::span<const std::int64_t> values);
    void results(); ///< the values that follow are results

    std::span<const std::int64_t> values() const noexcept { return values_; }

private:
    std::vector<std::int64_t> values_;
};

std::vector<std::int64_t> encoded(const OpSignature& signature);

/// Decodes a signature. Decoding stops at the first value that no encoder writes and returns the values before.
OpSignature decodedSignature(std::span<const std::int64_t> values);

} // namespace headroom
