// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/trace/step_trace.h"

namespace headroom {

/// Deduces the category of a block from its lifetime: the phase `made` that allocated it, whether it was freed before
/// that phase ended (`freedSoon`), and whether it was freed at all.
inline Category lifeCategory(Phase made, bool freedSoon, bool freed)
{
    switch (made) {
    case Phase::forward:
        return freedSoon ? Category::temporary : Category::activation;
    case Phase::backward:
        return freedSoon ? Category::temporary : Category::gradient;
    case Phase::optimizer:
        return freed ? Category::temporary : Category::optimizer;
    default:
        return freedSoon ? Category::temporary : Category::other;
    }
}

/// Whether storages of the category are state of the model, which lives from step to step.
inline bool isOfModel(Category category)
{
    return category == Category::parameter || category == Category::buffer || category == Category::gradient
        || category == Category::optimizer;
}

} // namespace headroom
