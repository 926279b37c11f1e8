// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/record/record_command.h"

namespace headroom {

/// `torch-headroom-record verify MODEL --memory-budget FRACTION`: plans the ops of the step as `torch-headroom
/// ops-plan` does, runs it by the plan, and prints how what happened compares with what was predicted. On a GPU
/// gradients are compared with those of the plain step there. Beside a simulated one that is done on the CPU: its step,
/// whose ops are others, is planned for the same fraction. An error when anything parts: its sentence says where.
/// `onCpu`: however large the step is, and its memory on the CPU is compared, too.
Status runVerifyOps(const StepRequest& request, const RecordOptions& options, bool onCpu,
                    const ProgressReport& progress);

} // namespace headroom
