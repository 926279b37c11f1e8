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

/// An op without a kernel on the simulated GPU: ran on zeros on the CPU to determine the shapes of the results.
struct FallbackOp
{
    std::string op;
    std::string module;
    std::int64_t count = 0;
};
std::vector<FallbackOp> fallbackOps(const StepTrace& step);

/// Activations, temporaries and gradients that the program holds beyond the step's end (a loss that is summed up
/// holds the graph).
struct KeptActivations
{
    Bytes found = 0; ///< activations of earlier steps, when this step begins
    Bytes earlier = 0; ///< of earlier steps, when this step ends, without one gradient of each parameter
    Bytes more = 0; ///< what the step has made and leaves, without replacements of what was found
    bool inGraph = false; ///< at least half of `more` is saved by autograd when the step ends
    std::vector<StorageId> storages; ///< that the step found or made, and leaves
};
KeptActivations keptActivations(const StepTrace& step);

/// Returns what the program keeps between two steps, such as predictions of an evaluation: blocks of a size of which
/// the step finds those of at least two earlier periods, and reads none.
KeptActivations keptBetweenSteps(const StepTrace& step);

bool isGrowth(const KeptActivations& kept); ///< whether every step leaves more than the step before

/// Forwards with gradients on, of one module, whose saved tensors no backward pass used: torch.no_grad() is missing.
struct UnusedForward
{
    std::string module; ///< the outermost such module
    std::int64_t calls = 0;
    Bytes bytes = 0; ///< saved for nothing, at least 1 MiB
    std::vector<StorageId> storages; ///< saved for nothing
};
std::vector<UnusedForward> unusedForwards(const StepTrace& step); ///< none in a step without backward
std::string unusedForwardRemark(const UnusedForward& unused);

/// Returns the gradients that backward makes, that live while an optimizer runs, and that neither an optimizer nor the
/// program reads. None in a step without an optimizer that reads gradients of the step.
std::vector<StorageId> unusedGradients(const StepTrace& step);

/// Returns a sentence if every step of the program takes more than the step before; empty if not.
std::string growthRemark(const StepTrace& step);

/// Bytes of activations that only autograd holds when the step ends: a graph without a backward. The
/// program holds the graph by an output until a later step replaces the output.
Bytes keptByGraphs(const StepTrace& step);

/// Returns a sentence if the step begins with such a graph of the step before; empty if not. A plan counts the graph as
/// recorded, but checkpoints change what the graph holds, so that the start under a plan differs.
std::string noteOnCarriedGraph(const StepTrace& step);

/// Returns one sentence for each known difference between the recorded step and the user's program on a real GPU: the
/// recorder's remarks, the fallback ops, forwards without a backward, and whether memory
/// grows from step to step.
std::vector<std::string> remarks(const StepTrace& step);

/// Returns the remarks on a plan of the step: remarks() of the step, and noteOnCarriedGraph().
std::vector<std::string> planRemarks(const StepTrace& step);

} // namespace headroom
