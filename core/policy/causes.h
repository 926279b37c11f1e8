// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/bytes.h"
#include "core/policy/card.h"
#include "core/timeline/timeline.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace headroom {

/// Why a step takes its memory. In the order of a report: what is likely a mistake of the program first.
enum class CauseKind {
    growth, ///< every step leaves more alive than the step before
    unusedForward, ///< a forward with gradients on that no backward pass uses
    unusedGradients, ///< gradients of parameters that no optimizer updates
    summedLosses, ///< graphs of several losses, kept for a single backward pass
    memoryReader, ///< a forward chose its size by the card's free memory
    oldGradients, ///< gradients of the step before, that zero_grad() frees after the peak, or fills with zeros
    carried, ///< results of the step before that the program replaces after the peak
    unread, ///< blocks that no op of the step reads
    betweenSteps, ///< memory between two steps, as of an evaluation, is higher than the step's
    fragmentation, ///< the card has the bytes, in pieces
    attention, ///< scores of attention, as wide as the sequence
    logits, ///< results as wide as a vocabulary
    expansion, ///< results much larger than their inputs, as of broadcasting
    optimizerState, ///< the optimizer's state is larger than the weights
};
std::string_view causeName(CauseKind kind); ///< "growth", "unused_forward", … as in JSON

struct Cause
{
    CauseKind kind = CauseKind::growth;
    Bytes bytes = 0; ///< at the peak, or what is left alive by a step; 0: not known
    std::string sentence; ///< what, how many bytes, and what to do; without an end
    std::string line; ///< the line of source code that makes most of the bytes; empty: not known
    FrameId frame; ///< of `line`, that an editor opens; invalid: not known
    std::string remark; ///< the sentence of remarks() that says the same; empty: none
};

/// Returns the causes, most likely first. `run` is the run on the step's card; nullopt: no card is known.
std::vector<Cause> causesOf(const StepTrace& step, const Timeline& timeline, const std::optional<CardRun>& run);

} // namespace headroom
