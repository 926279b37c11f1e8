// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/cost/collective_model.h"
#include "core/profile/profile.h"

#include <vector>

namespace headroom {

/// Returns the NCCL kernels of a trace, as far as it gives their sizes. A kernel's time includes the wait for the last
/// rank, so for each size the fastest kernel shows the collective.
std::vector<CollectiveSample> collectivesOf(const Profile& profile, std::int64_t ranksPerNode);

} // namespace headroom
