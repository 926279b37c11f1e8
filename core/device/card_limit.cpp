// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/device/card_limit.h"

#include "core/cost/card_memory.h"
#include "core/device/simulated_device.h"
#include "core/device/simulated_state.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <string>

namespace headroom::sim {
namespace {

struct CardLimit
{
    std::mutex mutex;
    double times = 1; ///< the card's memory
    std::int64_t ranksPerNode = 0; ///< 0: as in the card's topology
    struct Communicator
    {
        Bytes bytes = 0;
        bool exchanges = false; ///< ran an all-to-all: NCCL takes more memory
    };
    std::map<std::string, Communicator> communicators; ///< by group
};

/// Never destroyed: asked also after main() has returned.
CardLimit& limit()
{
    static auto* const instance = new CardLimit;
    return *instance;
}

CardMemory memoryOf(const CardLimit& limit)
{
    CardMemory memory = cardMemory(simulatedState().spec);
    for (const auto& [group, communicator] : limit.communicators) {
        memory.nccl.communicators += communicator.bytes > 0;
        memory.nccl.bytes += communicator.bytes;
    }
    return memory;
}

Bytes usable(const CardLimit& limit)
{
    return memoryOf(limit).usable();
}

void apply(const CardLimit& limit)
{
    SimulatedAllocator& allocator = simulatedState().allocator;
    const bool isLarger = limit.times > 1;
    const auto total = static_cast<Bytes>(static_cast<double>(simulatedState().spec.memory) * limit.times);
    allocator.setCapacity(isLarger ? total : std::max<Bytes>(usable(limit), 1));
    AllocatorRules rules = allocator.rules();
    rules.total = total;
    allocator.setRules(rules);
}

} // namespace

Bytes usableOfCard()
{
    const std::lock_guard lock(limit().mutex);
    return usable(limit());
}

NcclMemory communicators()
{
    const std::lock_guard lock(limit().mutex);
    return memoryOf(limit()).nccl;
}

std::string restOfCard()
{
    const std::string nccl = ncclText(communicators());
    return nccl.empty() ? "CUDA's context and cuBLAS's workspaces" : "CUDA's context, cuBLAS's workspaces and " + nccl;
}

void limitCard(double times)
{
    const std::lock_guard lock(limit().mutex);
    limit().times = times;
    apply(limit());
}

void setMemoryFraction(double fraction)
{
    constexpr double none = 1e-12; // 0 would mean that there is no limit
    SimulatedAllocator& allocator = simulatedState().allocator;
    const std::lock_guard lock(limit().mutex);
    AllocatorRules rules = allocator.rules();
    rules.memoryFraction = std::max(fraction, none);
    allocator.setRules(rules);
}

void setRanksPerNode(std::int64_t ranks)
{
    const std::lock_guard lock(limit().mutex);
    limit().ranksPerNode = ranks;
}

void addCommunicator(const Communication& communication)
{
    const DeviceSpec& card = simulatedState().spec;
    if (card.memory == 0)
        return;
    const bool exchanges = communication.kind == CollectiveKind::allToAll;
    const std::lock_guard lock(limit().mutex);
    const auto [entry, isNew] = limit().communicators.try_emplace(communication.group);
    CardLimit::Communicator& communicator = entry->second;
    if (!isNew && (communicator.exchanges || !exchanges))
        return;
    const Topology& topology = topologyOf(card.name);
    const std::int64_t perNode = limit().ranksPerNode > 0 ? limit().ranksPerNode : topology.ranksPerNode;
    communicator = {ncclCommunicator(groupShape(communication.ranks, perNode), topology, exchanges), exchanges};
    apply(limit());
}

} // namespace headroom::sim
