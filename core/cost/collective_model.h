// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"
#include "core/trace/step_trace.h"

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace headroom {

/// A link that NCCL sends messages over. Source: resources/topologies.json, compiled in, or a file of the same form.
struct Link
{
    /// A point of a bandwidth curve over message size. Between two points the bandwidth is interpolated in the
    /// logarithm of the size; beyond the ends it is constant.
    struct Point
    {
        double bytes = 0;
        double gigabytesPerSecond = 0;

        friend bool operator==(const Point&, const Point&) = default;
    };
    using Curve = std::vector<Point>;

    std::string name; ///< "nvlink4"
    std::string source;
    std::int64_t channels = 24; ///< channels that NCCL opens for collectives inside a node
    std::array<double, 3> hopUs{}; ///< latency of a step of a ring, by protocol: LL, LL128, Simple
    Curve bandwidth; ///< inside a node: of a GPU (bus bandwidth); between nodes: of all network cards of a node
    double switchUs = 0; ///< latency of an all-reduce by the switch (NVLS)
    Curve switchBandwidth; ///< message size over time; empty: the switch cannot reduce

    friend bool operator==(const Link&, const Link&) = default;
};

/// The links that connect the GPUs of a job.
struct Topology
{
    std::string name; ///< value of --topology: "h100-8x400"
    std::string title;
    std::vector<std::string> cards; ///< GPUs that have this topology by default
    std::int64_t ranksPerNode = 8;
    /// Speed of kernels in a distributed job relative to that of a single GPU: clocks fall at the power limit, and
    /// NCCL's kernels use multiprocessors and bandwidth.
    double computeShare = 1;
    Link node;
    Link network;

    friend bool operator==(const Topology&, const Topology&) = default;
};

/// A protocol of NCCL: the start time, and the payload's share of the bandwidth. Source: NCCL, src/graph/tuning.cc.
struct Protocol
{
    double baseUs = 0;
    double share = 1;
};
inline constexpr std::array<Protocol, 3> protocols{{{6.6, 0.25}, {14, 0.92}, {8.4, 1}}};

std::span<const Topology> topologies(); ///< the topologies compiled into the program
const Topology& topologyOf(std::string_view gpu); ///< the first with the GPU in `cards`, else the first of all
/// A topology by name, or the first one in a file of the form of resources/topologies.json. Errors (badInput) list the
/// names, or say what is wrong in the file.
Result<Topology> findTopology(const std::string& nameOrFile);
std::string topologyToJson(const Topology& topology); ///< text of a file with this topology and the links

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

/// By op of a distributed step: the time in ms of the op's collective, else opMs[op] divided by Topology::computeShare.
/// `slowed` false: `opMs` were measured in a job and are not divided.
std::vector<double> withCollectives(const StepTrace& trace, const Topology& topology, std::vector<double> opMs,
                                    bool slowed);

/// A measured collective.
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

/// Whether a text is the output of a program of nccl-tests.
bool isNcclTests(std::string_view text);

/// The rows of the output, with the out-of-place times. The collective is named by the text
/// ("all_gather_perf"), else inferred from the ratio of bus bandwidth to algorithm bandwidth. Errors (badInput)
/// say what is missing in `file`.
Result<std::vector<CollectiveSample>> readNcclTests(std::string_view text, const std::string& file);

} // namespace headroom
