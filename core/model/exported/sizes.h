// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"
#include "core/model/exported/exported_program.h"
#include "core/model/source.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace headroom::exported {

/// Values of dynamic dimensions, by symbol.
using Symbols = std::map<std::string, std::int64_t>;

/// Returns the symbol if the size is one; nullopt for numbers and for expressions such as 2*s0.
std::optional<std::string> symbolOf(const Size& size);
/// Returns the value of a size; nullopt for an expression that is not supported, or a symbol without a value.
std::optional<std::int64_t> evaluate(const Size& size, const Symbols& symbols);

/// The sizes at which a step runs.
struct ChosenSizes
{
    Symbols symbols;
    std::int64_t batch = 0;
    std::int64_t sequence = 0; ///< 0: the model has no sequence dimension
    std::vector<StepInfo::Dimension> dimensions; ///< the dimensions that the user can choose
};

/// Chooses the sizes. Batch is the first dimension of the first input that has one. Sequence is the second dimension of
/// the first input of tokens, or of (batch, sequence, width). Errors (badInput): a size outside of the exported range,
/// or a chosen size that the file fixes.
Result<ChosenSizes> chooseSizes(const ExportedProgram& program, const ModelRequest& request);

} // namespace headroom::exported
