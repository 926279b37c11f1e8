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

/// The symbol that a size is; none for numbers and for expressions such as 2*s0.
std::optional<std::string> symbolOf(const Size& size);
/// None: an expression that is not understood, or a symbol without value.
std::optional<std::int64_t> evaluate(const Size& size, const Symbols& symbols);

/// The sizes that a step is run at.
struct ChosenSizes
{
    Symbols symbols;
    std::int64_t batch = 0;
    std::int64_t sequence = 0; ///< 0: the model has no sequence dimension
    std::vector<StepInfo::Dimension> dimensions; ///< those that can be chosen
};

/// Batch is the first dimension of the first input that has one, sequence the second one of the first input of tokens,
/// or of (batch, sequence, width). Errors (badInput): a size out of the range that the model was exported for, or the
/// choice of one that the file fixes.
Result<ChosenSizes> chooseSizes(const ExportedProgram& program, const ModelRequest& request);

} // namespace headroom::exported
