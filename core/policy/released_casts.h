// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/policy/step_layout.h"

#include <vector>

namespace headroom {

/// When memory of casts may be gone. The first recomputation in backward lets go of all casts of weights that autocast
/// has, those of other parts, too. What a part does with its own begins when backward asks for one of them; autograd
/// has it until it is released.
std::vector<PartDeviations::Stretch> castsThatMayBeGone(const StepModel& model, const StorageEvents& events);

} // namespace headroom
