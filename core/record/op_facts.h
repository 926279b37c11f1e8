// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/ids.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace headroom {

/// Facts of an op that do not depend on the arguments. Looked up once for each op of a step.
struct OpFacts
{
    std::string name; ///< as PyTorch prints an OpOverload: "aten.mm.default"
    StringId id; ///< the name in the step's string table
    std::uint16_t flags = 0; ///< opView, opInPlace, opRandom, opCreate, opSacIgnored
    std::size_t arguments = 0;
    std::size_t returns = 0;
    std::vector<bool> written; ///< by argument: whether the op writes the argument
    std::vector<bool> statistics; ///< by argument: running statistics; the op writes statistics in training only
    std::optional<std::size_t> training; ///< index of the flag of batch normalisation; none: the op always trains
    std::optional<std::size_t> dropout; ///< index of the dropout probability; at 0 the op is not random
    enum class OpClass : std::uint8_t { ordinary, cast, convolution, convolutionBackward, opaque };
    OpClass kind = OpClass::ordinary;
};

OpFacts opFacts(const c10::OperatorHandle& op);

/// Returns whether a call writes argument number `argument`. The call's arguments begin at `first` in `stack`.
bool writes(const OpFacts& facts, const torch::jit::Stack& stack, std::size_t first, std::size_t argument);

/// Returns whether a call is autocast's own cast of a weight. Ask before the call runs. Autocast keeps the result until
/// the context ends (opAutocastCast; cached_cast() in aten/src/ATen/autocast_mode.cpp).
bool isAutocastCast(OpFacts::OpClass kind, const torch::jit::Stack& stack, std::size_t arguments);

} // namespace headroom
