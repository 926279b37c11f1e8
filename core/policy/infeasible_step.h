// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/plan/plan.h"
#include "core/timeline/timeline.h"

#include <string>

namespace headroom {

/// One sentence: what memory is left when everything was recomputed that may be, where, of what, by which modules, and
/// what would help. `least` is that step; `leastWithoutWishes` the least budget without pins and AC units, 0 when there
/// are none.
std::string whyStepDoesNotFit(const StepTrace& trace, const Plan& plan, const Timeline& least,
                              Bytes leastWithoutWishes);

} // namespace headroom
