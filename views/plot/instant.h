// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/timeline/pyramid.h"

#include <QString>

namespace headroom {

/// One instant of a step in words and numbers: what the hover card, the table and an export say about it.
struct Instant
{
    std::size_t changeCount = 0;
    double ms = 0;
    QString phase; ///< "forward", …; empty outside of any
    QString op; ///< as PyTorch prints it; empty between ops
    QString module; ///< FQN; empty where unknown
    bool recomputed = false;
    CategoryBytes bytes{};
    Bytes sum = 0;
};

/// The instant after the first `changeCount` changes. `trace` may be null: then op and module stay empty.
Instant describeInstant(const StepTrace* trace, const TimelinePyramid& pyramid, std::size_t changeCount);

} // namespace headroom
