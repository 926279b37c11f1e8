// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/predict/step_model.h"

#include <vector>

namespace headroom {

/// The plan with the checkpoints of alike modules (the layers of one list) in other orders: those that recompute most
/// first, last, and spread evenly. These plans take as long, and about as many bytes, but leave other gaps between the
/// blocks of the caching allocator. The plan itself is not among them; empty: no two alike modules differ in it.
std::vector<CheckpointPlan> arrangements(const StepModel& model, const CheckpointPlan& plan);

} // namespace headroom
