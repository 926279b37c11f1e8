// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/cost/topology.h"

#include <span>
#include <vector>

namespace headroom {

/// How the ranks of a group lie on nodes.
struct GroupShape
{
    int ranks = 1;
    int nodes = 1;
    int perNode = 1; ///< ranks of the group on its fullest node
};
/// Of the step's job, else as the topology has it.
std::int64_t ranksPerNode(const StepInfo& info, const Topology& topology);
GroupShape groupShape(std::span<const std::uint32_t> ranks, std::int64_t ranksPerNode);

/// Milliseconds of a collective that all ranks begin at once, by NCCL's own model: a start, a latency for each step of
/// the ring or tree, and the slower of what goes over a GPU's link and over a node's network cards, of which groups of
/// fewer ranks than a node has take their share. `bytes` as StepTrace::Collectives counts them.
double collectiveMs(const Topology& topology, CollectiveKind kind, double bytes, const GroupShape& group);

/// Of every op of a distributed step: its collective's milliseconds, or what `opMs` says of it, by the share that
/// kernels have in a job; `slowed` false: `opMs` were measured in one.
std::vector<double> withCollectives(const StepTrace& trace, const Topology& topology, std::vector<double> opMs,
                                    bool slowed);

/// One that was measured.
struct CollectiveSample
{
    CollectiveKind kind = CollectiveKind::allReduce;
    double bytes = 0;
    GroupShape group;
    double us = 0;
};

/// The topology with the bandwidths that the samples say; what they do not measure stays. Messages below 1 MiB say
/// nothing of bandwidth. Errors (badInput): no sample says any.
Result<Topology> calibrated(const Topology& topology, std::span<const CollectiveSample> samples);

} // namespace headroom
