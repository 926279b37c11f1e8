// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/plot/instant.h"

#include <algorithm>

namespace headroom {

Instant describeInstant(const StepTrace* trace, const TimelinePyramid& pyramid, std::size_t changeCount)
{
    const auto& timeline = pyramid.timeline();
    Instant made;
    made.changeCount = std::min(changeCount, timeline.changes.size());
    made.bytes = pyramid.bytesAt(made.changeCount);
    made.sum = total(made.bytes);
    if (made.changeCount > 0) {
        const auto& change = timeline.changes[made.changeCount - 1];
        made.ms = change.ms;
        made.recomputed = change.recomputed;
        if (trace && change.op.valid()) {
            made.op = QString::fromUtf8(trace->opName(change.op));
            made.module = QString::fromUtf8(trace->moduleFqn(trace->ops.module[change.op]));
        }
    }
    for (const auto& span : timeline.phases) {
        if (made.ms >= span.beginMs && made.ms <= span.endMs) {
            made.phase = QString::fromUtf8(phaseName(span.phase));
            break;
        }
    }
    return made;
}

} // namespace headroom
