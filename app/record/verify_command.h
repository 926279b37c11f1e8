// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/record/record_command.h"
#include "core/base/bytes.h"

namespace headroom {

/// Runs the step with and without the policy, or by a plan for its ops, and prints how what happened compares with what
/// was predicted. An error when they part: its sentence says where. `watch` is told how far it is.
Status runVerify(const RecordOptions& options, const ProgressReport& watch);

/// Is the step so large that its values are computed on the CPU only when asked for?
bool isMuchForCpu(Bytes peak, double flops);

} // namespace headroom
