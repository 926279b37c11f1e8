// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/cost/roofline.h"
#include "core/sac/step_statistics.h"
#include "core/timeline/timeline.h"
#include "core/trace/step_trace.h"

#include <string>
#include <vector>

namespace headroom {

/// What is printed of a recorded step.
struct RecordSummary
{
    StepTracePtr trace;
    std::string output; ///< the step's file
    DeviceSpec gpu;
    Timeline timeline;
    Baseline baseline;
    double recordMs = 0;
    std::vector<std::string> notes; ///< the model's own
};

void printRecordText(const RecordSummary& summary);
void printRecordJson(const RecordSummary& summary); ///< one document

} // namespace headroom
