// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/plan/plan.h"
#include "core/timeline/timeline.h"

#include <string>

namespace headroom {

/// One sentence for the user that says why no plan fits: the least peak, where it is, its largest categories and
/// modules, and what would help. `least` is the timeline of the plan of least peak; `leastWithoutWishes` is the least
/// budget in bytes without pins and AC units, 0 if the request has none.
std::string whyStepDoesNotFit(const StepTrace& trace, const Plan& plan, const Timeline& least,
                              Bytes leastWithoutWishes);

} // namespace headroom
