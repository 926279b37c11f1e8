// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

#include "core/trace/whole_step.h"

#include "core/trace/out_of_memory.h"

namespace headroom {

Status checkWhole(const StepTrace& step, const std::string& consequence)
{
    const std::string missing = ", and the rest is missing, so that " + consequence;
    if (const std::string raised(step.info.endedEarly()); !raised.empty())
        return badInput("this step ended early (" + raised + ")" + missing
                        + ": record the step again once the script runs through a whole step");
    if (endedOutOfMemory(step))
        return badInput("this step ended out of memory" + missing
                        + ": record the step with --unlimited, as on a larger card");
    return {};
}

} // namespace headroom
