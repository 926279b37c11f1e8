// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/cost/roofline.h"

#include <cstdint>
#include <span>
#include <vector>

namespace headroom {

/// What PyTorch was told about its kernels when an op ran, combined by bitwise or.
enum OpMode : std::uint8_t {
    matmulTF32 = 1, ///< torch.backends.cuda.matmul.allow_tf32
    convolutionTF32 = 2, ///< torch.backends.cudnn.allow_tf32
    deterministicKernels = 4, ///< torch.use_deterministic_algorithms
};

/// The arguments and results of one call of an op, as far as they decide how long it takes on any card. A step holds
/// them encoded (StepTrace::Signatures), a row for all calls that are alike.
struct OpSignature
{
    struct Value
    {
        enum class Kind : std::uint8_t {
            none, ///< not given, or nothing that a time depends on
            tensor,
            tensors, ///< a list of them
            manyTensors, ///< a long list: `integers` says how many, `tensors` holds one as long as all together
            integers, ///< one or a list; booleans are 0 and 1, a floating-point number says whether it is not 0
        };
        Kind kind = Kind::none;
        std::vector<TensorShape> tensors;
        std::vector<std::int64_t> integers;

        bool operator==(const Value&) const = default;
    };

    std::uint8_t modes = 0; ///< OpMode
    std::vector<Value> arguments; ///< by the position in the op's schema
    std::vector<Value> results;

    const TensorShape* tensor(std::size_t argument) const noexcept; ///< none: no tensor stands there
    std::int64_t integer(std::size_t argument, std::size_t element = 0, std::int64_t otherwise = 0) const noexcept;
    const TensorShape* result(std::size_t position = 0) const noexcept;

    bool operator==(const OpSignature&) const = default;
};

/// Writes a signature value by value, in the order of the schema, without the objects between.
class SignatureEncoder
{
public:
    explicit SignatureEncoder(std::uint8_t modes = 0);

    void setModes(std::uint8_t modes) noexcept { values_.front() = modes; }
    void none();
    void tensor(const TensorShape& tensor); ///< without strides: a dense one, row by row
    void beginTensors(std::size_t count); ///< `count` calls of tensor() follow
    void manyTensors(std::size_t count, const TensorShape& together);
    void integers(std::span<const std::int64_t> values);
    void results(); ///< what follows are results

    std::span<const std::int64_t> values() const noexcept { return values_; }

private:
    std::vector<std::int64_t> values_;
};

std::vector<std::int64_t> encoded(const OpSignature& signature);

/// The opposite. Values that no encoder wrote end it: what was read until there counts.
OpSignature decodedSignature(std::span<const std::int64_t> values);

} // namespace headroom
