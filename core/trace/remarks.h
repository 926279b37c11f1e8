// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/trace/step_trace.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace headroom {

/// An op without a kernel on the simulated GPU. It ran on zeros on the CPU to determine the shapes of its results.
struct FallbackOp
{
    std::string op;
    std::string module;
    std::int64_t count = 0;
};
std::vector<FallbackOp> fallbackOps(const StepTrace& step);

/// Activations, temporaries and gradients that the program holds beyond the step's end (a loss that is summed up holds
/// its graph).
struct KeptActivations
{
    Bytes found = 0; ///< activations of earlier steps, when this step begins
    Bytes earlier = 0; ///< of earlier steps, when this step ends, without one gradient of each parameter
    Bytes more = 0; ///< what the step has made and leaves, without what replaces something that it found
    bool inGraph = false; ///< at least half of `more` is saved by autograd when the step ends
};
KeptActivations keptActivations(const StepTrace& step);

/// Bytes of what the step makes and drops, and autograd saves for backward. Steps of equal sizes save equal bytes.
Bytes savedForBackward(const StepTrace& step);

/// Name of the setting (StepInfo::settings) with the most bytes that a forward took which is no training step, as one
/// before there is an optimizer.
constexpr std::string_view forwardsOutsideSetting = "bytes of forwards outside of steps";
Bytes forwardsOutside(const StepTrace& step); ///< bytes of that setting; 0: there was no such forward

/// Bytes that earlier steps of the program saved for backward, where those differ from the recorded step's by more than
/// a thousandth. The program's steps are of several sizes then, and a later one may be larger than all of these.
struct EarlierSteps
{
    /// Name of the setting (StepInfo::settings) that has the two figures, separated by a space.
    static constexpr std::string_view setting = "bytes saved by earlier steps";
    Bytes least = 0;
    Bytes most = 0;
    Bytes own = 0; ///< savedForBackward() of the recorded step
};
std::optional<EarlierSteps> otherEarlierSteps(const StepTrace& step); ///< nullopt: they do not, or are not known

/// Forwards with gradients on, of one module, whose saved tensors no backward pass used: torch.no_grad() is missing.
struct UnusedForward
{
    std::string module; ///< the outermost one of which this is true
    std::int64_t calls = 0;
    Bytes bytes = 0; ///< saved for nothing, at least 1 MiB
};
std::vector<UnusedForward> unusedForwards(const StepTrace& step); ///< none in a step without backward

/// Bytes of activations that only autograd holds when the step ends: a graph whose backward never ran, which the
/// program holds by an output until a later step replaces it.
Bytes keptByGraphs(const StepTrace& step);

/// Returns a sentence if the step begins with such a graph of the step before, which a plan counts as it was recorded;
/// empty if not. Checkpoints change what such a graph holds, so that a plan's start is another one.
std::string noteOnCarriedGraph(const StepTrace& step);

/// Returns one sentence for each known difference between the recorded step and the user's program on a real GPU: the
/// recorder's remarks, the fallback ops, forwards without a backward, and whether each step takes more than the one
/// before.
std::vector<std::string> remarks(const StepTrace& step);

/// Returns the remarks on a plan of the step: those on the step, and noteOnCarriedGraph().
std::vector<std::string> planRemarks(const StepTrace& step);

} // namespace headroom
