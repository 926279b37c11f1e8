// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/trace/step_trace.h"

namespace headroom {

/// What a block is for, of which only its life is known: the phase in which it was made, whether it was taken back
/// before that phase ended, and whether at all.
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

} // namespace headroom
