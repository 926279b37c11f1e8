// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cost/collective_model.h"

#include "core/cost/op_signature.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

namespace headroom {
namespace {

constexpr std::size_t simple = 2; ///< index of the protocol of large messages

double bandwidthAt(const Link::Curve& curve, double bytes)
{
    const auto above = std::ranges::lower_bound(curve, bytes, {}, &Link::Point::bytes);
    if (above == curve.begin())
        return above->gigabytesPerSecond;
    const Link::Point& below = *std::prev(above);
    if (above == curve.end())
        return below.gigabytesPerSecond;
    const double share = std::log(bytes / below.bytes) / std::log(above->bytes / below.bytes);
    return below.gigabytesPerSecond + share * (above->gigabytesPerSecond - below.gigabytesPerSecond);
}

/// Microseconds that bytes take at a bandwidth.
double us(double bytes, double gigabytesPerSecond)
{
    return bytes / gigabytesPerSecond / 1e3;
}

/// The traffic of a collective.
struct Traffic
{
    double link = 0; ///< bytes over the link of a GPU for each byte of the message
    double network = 0; ///< bytes over the network cards of a node for each byte of the message
    int linkSteps = 0; ///< steps inside a node
    int networkSteps = 0; ///< steps between nodes
};

Traffic trafficOf(CollectiveKind kind, const GroupShape& group)
{
    const double ranks = group.ranks;
    const double others = (ranks - 1) / ranks;
    const bool far = group.nodes > 1;
    const int steps = group.ranks - group.nodes;
    const int farSteps = group.nodes - 1;
    switch (kind) {
    case CollectiveKind::allReduce:
    case CollectiveKind::barrier:
        // Two nodes form a tree of two: each sends a part once.
        return {2 * others, !far ? 0 : group.nodes == 2 ? 1 : 2 * others, 2 * steps, 2 * farSteps};
    case CollectiveKind::allGather:
    case CollectiveKind::reduceScatter:
    case CollectiveKind::gather:
    case CollectiveKind::scatter:
        return {others, far ? others : 0, steps, farSteps};
    case CollectiveKind::allToAll:
        return {(group.perNode - 1) / ranks, group.perNode * (ranks - group.perNode) / ranks, group.perNode - 1,
                farSteps};
    case CollectiveKind::broadcast:
    case CollectiveKind::reduce:
        return {1, far ? 1.0 : 0, steps, farSteps};
    case CollectiveKind::send:
    case CollectiveKind::receive:
        return {far ? 0.0 : 1, far ? 1.0 : 0, far ? 0 : 1, far ? 1 : 0};
    }
    return {};
}

/// Latency of the ring, or of all-reduce's tree between nodes if that is shorter.
double latencyUs(const Topology& topology, CollectiveKind kind, const GroupShape& group, std::size_t protocol)
{
    const Traffic traffic = trafficOf(kind, group);
    const double link = topology.node.hopUs[protocol];
    const double network = topology.network.hopUs[protocol];
    double hops = traffic.linkSteps * link + traffic.networkSteps * network;
    if (kind == CollectiveKind::allReduce && group.nodes > 1)
        hops = std::min(hops, 2 * ((group.perNode - 1) * link + std::ceil(std::log2(group.nodes)) * network));
    return protocols[protocol].baseUs + hops;
}

/// The group's share of a node's network cards: the node's other groups run the same collective at the same time.
double networkShare(const Topology& topology, const GroupShape& group)
{
    return std::min(1.0, static_cast<double>(group.perNode) / static_cast<double>(topology.ranksPerNode));
}

double networkUs(const Topology& topology, double bytes, const Traffic& traffic, const GroupShape& group)
{
    return traffic.network == 0
        ? 0
        : us(bytes * traffic.network, bandwidthAt(topology.network.bandwidth, bytes) * networkShare(topology, group));
}

bool switchReduces(const Link& link, CollectiveKind kind, const GroupShape& group)
{
    return kind == CollectiveKind::allReduce && group.perNode > 2 && !link.switchBandwidth.empty();
}

/// Sorts by size and keeps the fastest sample of each: a kernel that waits for another rank is slower than its
/// collective.
Link::Curve sorted(Link::Curve curve)
{
    std::ranges::sort(curve, {}, [](const Link::Point& p) { return std::pair(p.bytes, -p.gigabytesPerSecond); });
    const auto isRepeated = [](const Link::Point& a, const Link::Point& b) { return a.bytes == b.bytes; };
    curve.erase(std::unique(curve.begin(), curve.end(), isRepeated), curve.end());
    return curve;
}

} // namespace

std::int64_t ranksPerNode(const StepInfo& info, const Topology& topology)
{
    return info.distributed ? info.distributed->ranksPerNode : topology.ranksPerNode;
}

GroupShape groupShape(std::span<const std::uint32_t> ranks, std::int64_t ranksPerNode)
{
    std::map<std::int64_t, int> nodes;
    for (const std::uint32_t rank : ranks)
        ++nodes[rank / ranksPerNode];
    GroupShape shape;
    shape.ranks = std::max(1, static_cast<int>(ranks.size()));
    shape.nodes = std::max(1, static_cast<int>(nodes.size()));
    for (const auto& [node, count] : nodes)
        shape.perNode = std::max(shape.perNode, count);
    return shape;
}

double collectiveMs(const Topology& topology, CollectiveKind kind, double bytes, const GroupShape& group)
{
    if (group.ranks < 2)
        return 0;
    const Traffic traffic = trafficOf(kind, group);
    const double network = networkUs(topology, bytes, traffic, group);
    double best = std::numeric_limits<double>::infinity();
    for (std::size_t protocol = 0; protocol < protocols.size(); ++protocol) {
        const double link = traffic.link == 0 || group.perNode == 1
            ? 0
            : us(bytes * traffic.link, bandwidthAt(topology.node.bandwidth, bytes));
        const double moved = std::max(link, network) / protocols[protocol].share;
        best = std::min(best, latencyUs(topology, kind, group, protocol) + moved);
    }
    if (switchReduces(topology.node, kind, group)) {
        const double hops = 2 * std::ceil(std::log2(group.nodes)) * topology.network.hopUs[simple];
        const double moved = std::max(us(bytes, bandwidthAt(topology.node.switchBandwidth, bytes)), network);
        best = std::min(best, topology.node.switchUs + hops + moved);
    }
    return best / 1e3;
}

namespace {

/// The share of a step's flops that tensor cores compute: in half precision, or in float32 where PyTorch is told to use
/// TF32. 1 without flops.
double shareOfTensorCores(const StepTrace& trace)
{
    double all = 0;
    double onTensorCores = 0;
    for (std::uint32_t row = 0; row < trace.ops.size(); ++row) {
        const OpId op(row);
        const double flops = trace.ops.flops[op];
        const DType dtype = trace.ops.dtype[op];
        const auto signature = trace.signatureOf(op);
        const bool isWide = dtype == DType::float32 || dtype == DType::float64;
        const bool tf32 = !signature.empty() && (signature.front() & (matmulTF32 | convolutionTF32)) != 0;
        all += flops;
        onTensorCores += !isWide || (dtype == DType::float32 && tf32) ? flops : 0;
    }
    return all > 0 ? onTensorCores / all : 1;
}

} // namespace

std::vector<double> withCollectives(const StepTrace& trace, const Topology& topology, std::vector<double> opMs,
                                    bool slowed)
{
    // What slows kernels is tensor cores at the power limit. Products in float32 do not reach it: GPT-2 large takes 6 %
    // longer on each of 4 H100 than on one (NeuSight).
    const double share = slowed ? 1 - (1 - topology.computeShare) * shareOfTensorCores(trace) : 1;
    for (double& ms : opMs)
        ms /= share;
    const StepTrace::Collectives& collectives = trace.collectives;
    const std::int64_t perNode = ranksPerNode(trace.info, topology);
    for (std::size_t row = 0; row < collectives.size(); ++row) {
        GroupShape group = groupShape(trace.groups.ranks[collectives.group[row]], perNode);
        if (const std::uint32_t peer = collectives.peer[row]; peer != StepTrace::Collectives::noPeer) {
            const auto self = static_cast<std::uint32_t>(trace.info.distributed ? trace.info.distributed->rank : 0);
            group = groupShape(std::array{self, peer}, perNode);
        }
        opMs[collectives.op[row].value]
            = collectiveMs(topology, collectives.kind[row], static_cast<double>(collectives.bytes[row]), group);
    }
    return opMs;
}

Result<Topology> calibrated(const Topology& topology, std::span<const CollectiveSample> samples)
{
    Link::Curve node;
    Link::Curve reduced;
    Link::Curve network;
    for (const CollectiveSample& sample : samples) {
        const bool bySwitch = switchReduces(topology.node, sample.kind, sample.group);
        const double start = bySwitch && sample.group.nodes == 1
            ? topology.node.switchUs
            : latencyUs(topology, sample.kind, sample.group, simple);
        if (sample.bytes < 1 << 20 || sample.us <= start || sample.group.ranks < 2)
            continue;
        const double rate = sample.bytes / (sample.us - start) / 1e3;
        const Traffic traffic = trafficOf(sample.kind, sample.group);
        if (sample.group.nodes > 1)
            network.push_back({sample.bytes, rate * traffic.network / networkShare(topology, sample.group)});
        else if (bySwitch)
            reduced.push_back({sample.bytes, rate});
        else
            node.push_back({sample.bytes, rate * traffic.link});
    }
    if (node.empty() && reduced.empty() && network.empty())
        return badInput("no collective of 1 MiB or more between two ranks was measured: nothing says a bandwidth");
    Topology result = topology;
    for (const auto& [measured, curve] :
         {std::pair(&node, &result.node.bandwidth), std::pair(&reduced, &result.node.switchBandwidth),
          std::pair(&network, &result.network.bandwidth)})
        if (!measured->empty())
            *curve = sorted(std::move(*measured));
    return result;
}

} // namespace headroom
