// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/policy/step_layout.h"

#include <vector>

namespace headroom {

/// The stretches of events in which casts of weights may be freed earlier than recorded: the first recomputation in
/// backward empties autocast's cache, casts of other parts included. From the first unpack of a cast until its last
/// release autograd holds it, so that these events are left out.
std::vector<PartDeviations::Stretch> castsThatMayBeGone(const StepModel& model, const StorageEvents& events);

} // namespace headroom
