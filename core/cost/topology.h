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
    Curve bandwidth; ///< inside a node: of one GPU (bus bandwidth); between nodes: of all network cards of a node
    double switchUs = 0; ///< latency of an all-reduce by the switch (NVLS)
    Curve switchBandwidth; ///< its message size over time; empty: the switch cannot reduce

    friend bool operator==(const Link&, const Link&) = default;
};

/// The links that connect the GPUs of a job.
struct Topology
{
    std::string name; ///< value of --topology: "h100-8x400"
    std::string title;
    std::vector<std::string> cards; ///< GPUs that have this topology by default
    std::int64_t ranksPerNode = 8;
    /// Speed of kernels in a distributed job relative to that of one GPU alone: clocks fall at the power limit, and
    /// NCCL's kernels use multiprocessors and bandwidth.
    double computeShare = 1;
    Link node;
    Link network;

    friend bool operator==(const Topology&, const Topology&) = default;
};

/// A protocol of NCCL: its start time, and the payload's share of the bandwidth. Source: NCCL, src/graph/tuning.cc.
struct Protocol
{
    double baseUs = 0;
    double share = 1;
};
inline constexpr std::array<Protocol, 3> protocols{{{6.6, 0.25}, {14, 0.92}, {8.4, 1}}};

std::span<const Topology> topologies(); ///< those compiled into the program
const Topology& topologyOf(std::string_view gpu); ///< the first with the GPU in `cards`, else the first of all
/// A topology by name, or the first one in a file of the form of resources/topologies.json. Errors (badInput) list the
/// names, or say what is wrong in the file.
Result<Topology> findTopology(const std::string& nameOrFile);
std::string topologyToJson(const Topology& topology); ///< text of a file with this topology and its links

} // namespace headroom
