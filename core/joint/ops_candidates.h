// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/joint/min_cut.h"
#include "core/joint/ops_schedule.h"
#include "core/plan/knapsack.h"

#include <vector>

namespace headroom {

/// A schedule and what it costs.
struct OpsCandidate
{
    OpsSchedule schedule;
    double cost = 0; ///< in the unit of OpsRequest::runtime
    double flops = 0;
    double ms = 0;
};

/// Orders candidates by cost, then by time, then by saved bytes.
bool better(const OpsCandidate& left, const OpsCandidate& right);

/// Rules of PyTorch's "more aggressive" and "aggressive" options; the second forbids less than the first.
inline constexpr MinCutRules withoutHeuristics{false, false, false, true};
inline constexpr MinCutRules allThatIsCheap{false, false, false, false};

/// Makes candidates for one request. It holds references to its arguments.
class OpsCandidates
{
public:
    OpsCandidates(const JointGraph& graph, const MinCutProblem& cuts, const OpsScheduler& scheduler,
                  const OpsRequest& request)
        : graph_(graph)
        , cuts_(cuts)
        , scheduler_(scheduler)
        , request_(request)
    {
    }

    OpsCandidate candidate(OpsSchedule schedule) const;
    OpsCandidate candidateOf(const std::vector<ValueId>& saved) const; ///< the candidate that saves these values
    /// Chooses by the knapsack which of the banned nodes to save, each with all its values; the others may run again.
    Result<std::vector<OpsCandidate>> byKnapsack(const std::vector<bool>& banned, Bytes cap) const;
    /// Spends the rest of the cap on nodes that run again.
    Result<OpsCandidate> refined(OpsCandidate best, Bytes cap) const;
    double cost(NodeId node) const; ///< cost of running it again, in the unit of OpsRequest::runtime

private:
    /// The bytes that saving a node's values adds to those that are saved.
    Bytes bytesOf(NodeId node, const std::vector<bool>& saved) const;
    Result<KnapsackChoice> choose(const std::vector<KnapsackItem>& items, Bytes cap, std::size_t mostDecisions) const;

    const JointGraph& graph_;
    const MinCutProblem& cuts_;
    const OpsScheduler& scheduler_;
    const OpsRequest& request_;
};

} // namespace headroom
