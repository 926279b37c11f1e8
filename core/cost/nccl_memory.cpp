// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cost/nccl_memory.h"

#include <map>

namespace headroom {
namespace {

// Sources: ncclMemory().
constexpr Bytes measuredChannels = 24;
constexpr Bytes bytesOfTwoRanks = 544 * MiB;
constexpr Bytes bytesOfMoreRanks = 688 * MiB;
constexpr Bytes bytesOfPair = 448 * MiB;

} // namespace

Bytes ncclCommunicator(const GroupShape& group, const Topology& topology, bool pairs)
{
    if (group.ranks < 2)
        return 0;
    const Bytes channels = topology.node.channels;
    const Bytes ring = (group.ranks == 2 ? bytesOfTwoRanks : bytesOfMoreRanks) * channels / measuredChannels;
    return ring + (pairs ? (group.perNode - 1) * bytesOfPair * channels / measuredChannels : 0);
}

NcclMemory ncclMemory(const StepTrace& step, const Topology& topology)
{
    const StepTrace::Collectives& collectives = step.collectives;
    std::map<GroupId, bool> connectsPairs;
    for (std::size_t row = 0; row < collectives.size(); ++row)
        connectsPairs[collectives.group[row]] |= collectives.kind[row] == CollectiveKind::allToAll;
    const std::int64_t perNode = ranksPerNode(step.info, topology);
    NcclMemory memory;
    for (const auto& [group, pairs] : connectsPairs) {
        const Bytes bytes = ncclCommunicator(groupShape(step.groups.ranks[group], perNode), topology, pairs);
        memory.communicators += bytes > 0;
        memory.bytes += bytes;
    }
    return memory;
}

} // namespace headroom
