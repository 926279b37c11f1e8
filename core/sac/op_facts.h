// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/trace/step_trace.h"

#include <string_view>
#include <vector>

namespace headroom {

/// The facts that SACEstimator derives from an op's name.
struct OpNameFacts
{
    std::string_view packet; ///< "mm" of "aten.mm.default": func_names
    bool viewLike = false; ///< composite_compliance.is_view_fn or is_inplace_view_fn
    bool inPlace = false; ///< composite_compliance.is_inplace
    bool skipped = false; ///< in _ADDITIONAL_IGNORED_OPS, besides SAC_IGNORED_OPS (opSacIgnored)
};
OpNameFacts opNameFacts(std::string_view name);

/// The facts of every op of a step, computed once for each name.
class OpNames
{
public:
    explicit OpNames(const StepTrace& trace);
    const OpNameFacts& operator[](OpId op) const;

private:
    const StepTrace& trace_;
    std::vector<OpNameFacts> facts_; ///< by StringId
};

} // namespace headroom
