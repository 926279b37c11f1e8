// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/cost/collective_model.h"
#include "core/profile/profile.h"

#include <vector>

namespace headroom {

/// NCCL's kernels of a trace, as far as it says what they moved. A kernel waits for the last rank: of each size the
/// fastest is the collective.
std::vector<CollectiveSample> collectivesOf(const Profile& profile, std::int64_t ranksPerNode);

} // namespace headroom
