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

/// What NCCL moves messages over. Source: resources/topologies.json, compiled in; or a file of the same form.
struct Link
{
    /// Rising in bytes of the message; between two the logarithm of the size decides, beyond them it stays.
    struct Point
    {
        double bytes = 0;
        double gigabytesPerSecond = 0;

        friend bool operator==(const Point&, const Point&) = default;
    };
    using Curve = std::vector<Point>;

    std::string name; ///< "nvlink4"
    std::string source;
    std::int64_t channels = 24; ///< that NCCL opens for collectives; inside a node
    std::array<double, 3> hopUs{}; ///< a step of a ring by NCCL's protocols: LL, LL128, Simple
    Curve bandwidth; ///< inside of a node: of one GPU (bus bandwidth); between nodes: of all network cards of a node
    double switchUs = 0; ///< all-reduce by the switch (NVLS): its latency
    Curve switchBandwidth; ///< and message over time; empty: the switch does not reduce

    friend bool operator==(const Link&, const Link&) = default;
};

/// How the GPUs of a job are connected.
struct Topology
{
    std::string name; ///< "h100-8x400": what --topology takes
    std::string title;
    std::vector<std::string> cards; ///< whose topology it is where none is named
    std::int64_t ranksPerNode = 8;
    /// Of the speed that kernels have alone what they have in a job: clocks fall at the power limit, and NCCL's kernels
    /// take multiprocessors and bandwidth.
    double computeShare = 1;
    Link node;
    Link network;

    friend bool operator==(const Topology&, const Topology&) = default;
};

/// NCCL's protocols: a start, and what of the bandwidth is payload. Source: NCCL, src/graph/tuning.cc.
struct Protocol
{
    double baseUs = 0;
    double share = 1;
};
inline constexpr std::array<Protocol, 3> protocols{{{6.6, 0.25}, {14, 0.92}, {8.4, 1}}};

std::span<const Topology> topologies(); ///< that the program was built with
const Topology& topologyOf(std::string_view gpu); ///< the first that names the card, else the first of all
/// By name, or from a file of the form of resources/topologies.json, of which it is the first. Errors (badInput) list
/// the names, or say what is wrong in the file.
Result<Topology> findTopology(const std::string& nameOrFile);
std::string topologyToJson(const Topology& topology); ///< a file of this one, with its links

} // namespace headroom
