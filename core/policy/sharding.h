// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/timeline/timeline.h"

namespace headroom {

/// The step as one of `worldSize` ranks sees it when FSDP shards parameters, gradients and optimizer state evenly. As
/// in PyTorch's sac_milp, what is gathered for the forward and backward of a module is not counted. Each category is
/// divided as a whole and rounded up, so that no rank has more.
Timeline perRank(Timeline timeline, int worldSize);

} // namespace headroom
