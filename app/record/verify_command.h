// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/record/record_command.h"

namespace headroom {

/// Runs the step with and without the policy, or under a plan by op, and prints a comparison with the prediction. The
/// error says where they first differ. Calls `watch` with the progress.
Status runVerify(const RecordOptions& options, const ProgressReport& watch);

} // namespace headroom
