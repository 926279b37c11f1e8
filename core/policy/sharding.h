// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/timeline/timeline.h"

namespace headroom {

/// The timeline of one of `worldSize` ranks if FSDP shards parameters, gradients and optimizer state evenly. As in
/// PyTorch's sac_milp, parameters that are gathered for a module's forward and backward are not counted. Each category
/// is divided as a whole and rounded up, so that no rank holds more.
Timeline perRank(Timeline timeline, int worldSize);

} // namespace headroom
