// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/timeline/timeline.h"
#include "core/trace/step_trace.h"

namespace headroom {

// Steps with other bytes of some blocks, calculated from a recorded step: what a program would take with a change that
// leaves all other blocks as they are. Ops, their order and times stay. A null step: the change has no effect.

/// The step with a fused optimizer: torch._fused_adam and the like make no block besides the state. The blocks that the
/// optimizer's ops make and drop again are empty.
StepTracePtr withFusedOptimizer(const StepTracePtr& step);

/// The step with optimizer state in 8 bits, as bitsandbytes' optimizers keep it: state of tensors with 4,096 elements
/// or more takes one byte an element, and 4 bytes for each block of 256. The recorded state is in 4 bytes.
StepTracePtr withEightBitOptimizer(const StepTracePtr& step);

/// The step with the loss in `chunks`: logits, their copies in other types, log-probabilities and the gradients of
/// these have a chunk's bytes. Logits are the input of the step's largest cross entropy.
StepTracePtr withChunkedLoss(const StepTracePtr& step, int chunks);

/// Bytes of gradients that are alive when the step begins, and at the step's peak not yet used: what clearing gradients
/// to None frees at the peak. 0: gradients are cleared to None.
Bytes gradientsKeptAtPeak(const StepTrace& step, const Timeline& timeline);

} // namespace headroom
