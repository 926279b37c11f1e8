// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/trace/step_trace.h"

#include <cstdint>
#include <span>

namespace headroom {

/// A step that was recorded with a batch size or a sequence length of `size`.
struct SizedStep
{
    std::int64_t size = 0;
    StepTracePtr step;
};

/// The step with each run of frees with nothing between sorted by storage: the order of a run changes nothing after it.
/// When autocast's cache of weights is cleared, PyTorch drops the weights in the order of addresses, so that two
/// recordings of one program differ in it. Steps are compared and calculated in this form.
StepTracePtr withSortedFrees(const StepTracePtr& step);

/// Whether two recordings of a program at different sizes have the same events, ops, modules and blocks, so that only
/// numbers differ. The error (badInput) says what differs: "564 ops and 561".
Status sameStructure(const StepTrace& one, const StepTrace& other);

/// Whether two recordings of the same structure have equal blocks and shapes: the program does not use the size.
bool sameSizes(const StepTrace& one, const StepTrace& other);

/// The step at `size`, calculated from recordings at other sizes. Each number of the recordings (bytes of a block,
/// flops, a dimension or stride of a shape) is a polynomial in the size: the Lagrange polynomial through all `steps`,
/// of degree steps.size() - 1, rounded to a whole number. One batch dimension makes numbers linear, a sequence length
/// at most quadratic. The numbers of a block are its requested bytes; allocated bytes are rounded to the allocator's
/// granularity. Times of ops are zero: withTimes() calculates times from the shapes. StepInfo is that of the recording
/// nearest to `size`, with `batch` and `sequence` calculated and without `arguments`, since no command made this step.
///
/// `steps` are at least one, of different sizes. Errors (badInput): as sameStructure(); a number is negative at `size`.
Result<StepTracePtr> stepAtSize(std::span<const SizedStep> steps, std::int64_t size);

} // namespace headroom
