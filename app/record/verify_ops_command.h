// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/record/record_command.h"

namespace headroom {

/// `headroom-record verify MODEL --memory-budget FRACTION`: plans the ops of the step as `headroom ops-plan` does, runs
/// it by the plan on the simulated device, and prints how what happened compares with what was predicted. On the CPU
/// the step, whose ops are others, is planned for the same fraction, and its gradients are compared with those of the
/// plain step. An error when anything parts: its sentence says where. `onCpu`: however large the step is.
Status runVerifyOps(const StepRequest& request, const RecordOptions& options, bool onCpu,
                    const ProgressReport& progress);

} // namespace headroom
