// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/trace/earlier_steps.h"
#include "core/trace/step_trace.h"

#include <cstddef>
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

/// Returns what the forward saves only for gradients in `unused`: backward reads the storages, but no op that such a
/// storage leads to makes a gradient that is read.
std::vector<StorageId> savedForUnused(const StepTrace& step, const std::vector<StorageId>& unused);

/// Losses that a single backward pass uses and that could each have a backward pass, since nothing but a sum joins the
/// losses: minibatches before a single backward().
struct SummedLosses
{
    std::size_t losses = 0;
    Bytes largest = 0; ///< bytes of the largest graph
    std::vector<StorageId> storages; ///< saved for all losses
};
SummedLosses summedLosses(const StepTrace& step); ///< of the backward pass with most losses

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
