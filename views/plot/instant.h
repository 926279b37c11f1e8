// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/timeline/pyramid.h"

#include <QString>

namespace headroom {

/// One instant of a step as text and numbers, for the hover card, the table and exports.
struct Instant
{
    std::size_t changeCount = 0;
    double ms = 0;
    QString phase; ///< "forward", …; empty outside of phases
    QString op; ///< name of the op; empty between ops
    QString module; ///< fqn; empty if unknown
    bool recomputed = false;
    CategoryBytes bytes{};
    Bytes sum = 0;
};

/// The instant after the first `changeCount` changes. If `trace` is null, op and module stay empty.
Instant describeInstant(const StepTrace* trace, const TimelinePyramid& pyramid, std::size_t changeCount);

} // namespace headroom
