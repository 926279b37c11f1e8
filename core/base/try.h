// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"

// The names are Abseil's. Both macros return from the enclosing function, which returns a Result or a Status.

/// Returns the error of a failed Status or Result.
#define RETURN_IF_ERROR(expression)                                                                                    \
    do {                                                                                                               \
        if (const auto& outcome = (expression); !outcome)                                                              \
            return outcome.error();                                                                                    \
    } while (false)

/// Assigns the value of a Result to `target`, which may be a declaration, or returns the Result's error.
#define ASSIGN_OR_RETURN(target, ...) ASSIGN_OR_RETURN_AS(HEADROOM_JOINED(result, __LINE__), target, __VA_ARGS__)
#define ASSIGN_OR_RETURN_AS(result, target, ...)                                                                       \
    auto result = __VA_ARGS__;                                                                                         \
    if (!result)                                                                                                       \
        return result.error();                                                                                         \
    target = *std::move(result)
#define HEADROOM_JOINED(a, b) HEADROOM_JOINED_AS(a, b)
#define HEADROOM_JOINED_AS(a, b) a##b
