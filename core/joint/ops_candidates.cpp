// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/joint/ops_candidates.h"

#include "core/base/try.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace headroom {

namespace {

constexpr int refinements = 8; ///< the most rounds of refined()

/// Decisions of the knapsack for a plan, and for one refinement of it. With tens of thousands of ops, many of them
/// alike, a proof would take seconds for each plan.
constexpr std::size_t mostDecisionsToPlan = mostKnapsackDecisions / 4;
constexpr std::size_t mostDecisionsToRefine = mostKnapsackDecisions / 20;
constexpr double ilpLimitMs = 2000;

} // namespace

bool better(const OpsCandidate& left, const OpsCandidate& right)
{
    return std::tie(left.cost, left.ms, left.schedule.savedBytes)
        < std::tie(right.cost, right.ms, right.schedule.savedBytes);
}

double OpsCandidates::cost(NodeId node) const
{
    if (request_.runtime == OpsRuntime::flops)
        return graph_[node].flops;
    if (request_.measuredMs.empty())
        return graph_[node].ms;
    double ms = 0;
    for (const OpId op : graph_[node].ops)
        ms += request_.measuredMs[op.value];
    return ms;
}

Result<KnapsackChoice> OpsCandidates::choose(const std::vector<KnapsackItem>& items, Bytes cap,
                                             std::size_t mostDecisions) const
{
    switch (request_.solver) {
    case OpsSolver::dp:
        return exactKnapsack(items, cap, mostDecisions);
    case OpsSolver::greedy:
        return greedyKnapsack(items, cap);
    case OpsSolver::ilp:
        return ilpKnapsack(items, cap, ilpLimitMs);
    }
    return Error{ErrorKind::internal, "unknown solver of op-level plans"};
}

OpsCandidate OpsCandidates::candidate(OpsSchedule schedule) const
{
    OpsCandidate made{std::move(schedule)};
    for (std::uint32_t i = 0; i < graph_.nodes.size(); ++i) {
        if (!made.schedule.repeated[i])
            continue;
        made.cost += cost(NodeId(i));
        made.flops += graph_.nodes[i].flops;
        made.ms += graph_.nodes[i].ms;
    }
    return made;
}

OpsCandidate OpsCandidates::candidateOf(const std::vector<ValueId>& saved) const
{
    return candidate(scheduler_.of(graph_.among(saved)));
}

Bytes OpsCandidates::bytesOf(NodeId node, const std::vector<bool>& saved) const
{
    Bytes bytes = 0;
    for (const ValueId value : graph_[node].makes)
        if (graph_.takesMemory(value) && !saved[value.value])
            bytes += graph_[value].bytes;
    return bytes;
}

Result<std::vector<OpsCandidate>> OpsCandidates::byKnapsack(const std::vector<bool>& banned, Bytes cap) const
{
    std::vector<NodeId> nodes;
    std::vector<KnapsackItem> items;
    std::vector<bool> flags(graph_.values.size(), false);
    for (std::uint32_t i = 0; i < graph_.nodes.size(); ++i) {
        const NodeId node(i);
        if (!banned[i] || cuts_.distance(node) >= MinCutProblem::unreachable || graph_[node].repeat == Repeat::once)
            continue;
        const double least = request_.runtime == OpsRuntime::flops ? 1.0 : 0.0;
        nodes.push_back(node);
        items.push_back({bytesOf(node, flags), std::max(cost(node), least)});
    }
    ASSIGN_OR_RETURN(const KnapsackChoice choice, choose(items, cap, mostDecisionsToPlan));
    std::vector<bool> allowed(graph_.nodes.size(), false);
    for (std::size_t i = 0; i < nodes.size(); ++i) {
        allowed[nodes[i].value] = !choice.taken[i];
        if (choice.taken[i])
            for (const ValueId value : graph_[nodes[i]].makes)
                flags[value.value] = true;
    }
    std::vector<OpsCandidate> candidates;
    candidates.push_back(candidateOf(cuts_.solve(allThatIsCheap, allowed).saved));
    candidates.push_back(candidate(scheduler_.of(std::move(flags))));
    return candidates;
}

Result<OpsCandidate> OpsCandidates::refined(OpsCandidate best, Bytes cap) const
{
    for (int round = 0; round < refinements && best.schedule.savedBytes < cap; ++round) {
        std::vector<KnapsackItem> items;
        std::vector<NodeId> nodes;
        for (std::uint32_t i = 0; i < graph_.nodes.size(); ++i) {
            const NodeId node(i);
            if (!best.schedule.repeated[i] || cost(node) <= 0)
                continue;
            nodes.push_back(node);
            items.push_back({bytesOf(node, best.schedule.saved), cost(node)});
        }
        ASSIGN_OR_RETURN(const KnapsackChoice choice,
                         choose(items, cap - best.schedule.savedBytes, mostDecisionsToRefine));
        std::vector<bool> saved = best.schedule.saved;
        for (std::size_t i = 0; i < nodes.size(); ++i)
            if (choice.taken[i])
                for (const ValueId value : graph_[nodes[i]].makes)
                    saved[value.value] = true;
        OpsCandidate next = candidate(scheduler_.of(std::move(saved)));
        if (next.schedule.savedBytes > cap || !better(next, best))
            break;
        best = std::move(next);
    }
    return best;
}

} // namespace headroom
