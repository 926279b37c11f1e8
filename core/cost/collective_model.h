// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/cost/topology.h"

#include <span>
#include <vector>

namespace headroom {

/// The distribution of a group's ranks over nodes.
struct GroupShape
{
    int ranks = 1;
    int nodes = 1;
    int perNode = 1; ///< ranks of the group on its fullest node
};
/// The number of ranks on a node in the step's job; without a job that of the topology.
std::int64_t ranksPerNode(const StepInfo& info, const Topology& topology);
GroupShape groupShape(std::span<const std::uint32_t> ranks, std::int64_t ranksPerNode);

/// Time in ms of a collective that all ranks begin together, by NCCL's own model: a start, a latency for each step of
/// the ring or tree, and the slower of the transfers over a GPU's link and over a node's network cards. A group with
/// fewer ranks per node than the node has gets a share of its network cards. `bytes` as in StepTrace::Collectives.
double collectiveMs(const Topology& topology, CollectiveKind kind, double bytes, const GroupShape& group);

/// By op of a distributed step: the time in ms of its collective, else opMs[op] divided by Topology::computeShare.
/// `slowed` false: `opMs` were measured in a job and are not divided.
std::vector<double> withCollectives(const StepTrace& trace, const Topology& topology, std::vector<double> opMs,
                                    bool slowed);

/// One measured collective.
struct CollectiveSample
{
    CollectiveKind kind = CollectiveKind::allReduce;
    double bytes = 0;
    GroupShape group;
    double us = 0;
};

/// The topology with bandwidths computed from the samples; bandwidths without a sample stay. Samples below 1 MiB are
/// ignored. Error (badInput): no sample is usable.
Result<Topology> calibrated(const Topology& topology, std::span<const CollectiveSample> samples);

} // namespace headroom
