// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/sac/piecewise_fit.h"
#include "core/sac/python_int_set.h"
#include "core/sac/sac_stats.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <unordered_map>

namespace headroom {
namespace {

/// Added to every share of memory: PyTorch's `delta`.
constexpr double shareOffset = 1e-2;
constexpr int mostSegments = 2;

/// The groups of ops that are stored or recomputed together.
class Groups
{
public:
    explicit Groups(const SacStats& stats)
        : stats_(stats)
        , randomHead_(stats.randOps.empty() ? -1 : *std::ranges::min_element(stats.randOps))
    {
        for (const auto& [op, head] : stats.inplaceOps) {
            headOfInPlace_[op] = head; // as dict(): the last of several
            inPlaceOrder_.push_back(op);
        }
        for (const int op : inPlaceOrder_) {
            const int head = headOfInPlace_[op];
            auto [group, isNew] = inPlace_.try_emplace(head);
            if (isNew) {
                heads_.push_back(head);
                group->second.add(head);
            }
            group->second.add(op);
        }
    }

    int randomHead() const noexcept { return randomHead_; }
    const std::vector<int>& inPlaceHeads() const noexcept { return heads_; } ///< in the order of first ops
    const std::vector<int>& inPlaceOps() const noexcept { return inPlaceOrder_; }
    bool isInPlace(int op) const { return headOfInPlace_.contains(op); }
    const PythonIntSet& inPlaceGroup(int head) const { return inPlace_.at(head); }

    /// Adds an op and the op's groups; `randomOps` is a list or a set, and the two give different slots.
    void addGroup(int op, const auto& randomOps, PythonIntSet& ops) const
    {
        ops.add(op);
        if (const auto group = inPlace_.find(op); group != inPlace_.end())
            ops.update(group->second);
        if (op == randomHead_)
            ops.update(randomOps);
    }

    /// Memory and time of ops, summed in the order of the set as Python does.
    std::pair<Bytes, double> sum(const PythonIntSet& ops) const
    {
        Bytes memory = 0;
        double ms = 0;
        for (const int op : ops.values()) {
            memory += stats_.memory[static_cast<std::size_t>(op)];
            ms += stats_.runtimes[static_cast<std::size_t>(op)];
        }
        return {memory, ms};
    }

    std::pair<Bytes, double> sumOfGroups(const std::vector<int>& heads) const
    {
        const PythonIntSet randomOps(stats_.randOps);
        PythonIntSet ops;
        for (const int head : heads)
            addGroup(head, randomOps, ops);
        return sum(ops);
    }

private:
    const SacStats& stats_;
    int randomHead_;
    std::unordered_map<int, int> headOfInPlace_;
    std::unordered_map<int, PythonIntSet> inPlace_;
    std::vector<int> inPlaceOrder_;
    std::vector<int> heads_;
};

PythonIntSet storedOps(const SacStats& stats, const Groups& groups)
{
    PythonIntSet stored;
    if (stats.forceStoreRandom && groups.randomHead() >= 0)
        stored.add(groups.randomHead());
    for (const int head : groups.inPlaceHeads()) {
        // An in-place op at the head changes a tensor from before the module, and no op of the module can recompute
        // that tensor.
        if (groups.isInPlace(head))
            stored.add(head);
        // PyTorch stores a group with random ops only if the number of random ops is odd (`True & n`); here the group
        // is always stored.
        const PythonIntSet& group = groups.inPlaceGroup(head);
        if (stats.forceStoreRandom && std::ranges::any_of(stats.randOps, [&](int op) { return group.contains(op); }))
            stored.add(head);
    }
    return stored;
}

PythonIntSet recomputeCandidates(const SacStats& stats, const Groups& groups, const PythonIntSet& stored,
                                 const PythonIntSet& recomputed)
{
    std::vector<int> all(stats.memory.size());
    std::iota(all.begin(), all.end(), 0);
    PythonIntSet candidates;
    if (groups.randomHead() >= 0 && !stored.contains(groups.randomHead()))
        candidates.add(groups.randomHead());
    candidates.update(PythonIntSet(groups.inPlaceHeads()).difference(stored));
    candidates.update(PythonIntSet(all)
                          .difference(recomputed)
                          .difference(stored)
                          .difference(PythonIntSet(groups.inPlaceOps()))
                          .difference(PythonIntSet(stats.randOps)));
    return candidates;
}

GreedyOrder greedyOrder(const SacStats& stats, const Groups& groups)
{
    PythonIntSet recomputed;
    recomputed.update(PythonIntSet(stats.viewLikeOps));
    const PythonIntSet stored = storedOps(stats, groups);

    GreedyOrder order;
    order.recomputed = recomputed.values();
    order.stored = stored.values();
    for (const int op : recomputeCandidates(stats, groups, stored, recomputed).values()) {
        PythonIntSet ops;
        groups.addGroup(op, stats.randOps, ops);
        const auto [memory, ms] = groups.sum(ops);
        const double worth = ms > 0 ? static_cast<double>(memory) / ms : std::numeric_limits<double>::max();
        order.candidates.push_back({op, memory, ms, worth});
    }
    std::ranges::stable_sort(order.candidates, std::ranges::greater{}, &GreedyOrder::Candidate::bytesPerMs);
    return order;
}

/// The running sums along the greedy order as shares.
class Curve
{
public:
    Curve(Bytes memory, double ms)
        : wholeMemory_(memory)
        , wholeMs_(ms)
    {
    }

    void add(Bytes memory, double ms)
    {
        memory_ += memory;
        ms_ += ms;
        const double share = static_cast<double>(memory_) / static_cast<double>(wholeMemory_) + shareOffset;
        const double time = wholeMs_ > 0 ? ms_ / wholeMs_ : 0;
        // PyTorch's curve is a dictionary by share: a later op without memory replaces the time.
        if (!points_.empty() && points_.back().first == share)
            points_.back().second = time;
        else
            points_.emplace_back(share, time);
    }

    std::vector<std::pair<double, double>> take() { return std::move(points_); }

private:
    Bytes wholeMemory_;
    double wholeMs_;
    Bytes memory_ = 0;
    double ms_ = 0;
    std::vector<std::pair<double, double>> points_;
};

/// Fits the curve with the times moved a point to the left: to discard more than a point, the next op is recomputed.
PiecewiseFit fitCurve(const std::vector<std::pair<double, double>>& curve)
{
    std::vector<double> x;
    std::vector<double> y;
    for (std::size_t i = 0; i + 1 < curve.size(); ++i) {
        x.push_back(curve[i].first);
        y.push_back(curve[i + 1].second);
    }
    if (x.empty())
        return {{curve.front().first, curve.front().first}, {0}, {curve.front().second}};
    if (x.size() == 1)
        return {{x.front(), curve.back().first}, {0}, {y.front()}};
    return fitPiecewise(x, y, x.size() >= mostSegments + 2 ? mostSegments : 1);
}

} // namespace

GreedyOrder greedyOrder(const SacStats& stats)
{
    return greedyOrder(stats, Groups(stats));
}

TradeOff tradeOff(const SacStats& stats)
{
    TradeOff result;
    for (const double ms : stats.runtimes)
        result.sacRuntimeMs += ms;
    for (const Bytes memory : stats.memory)
        result.sacMemory += memory;
    if (result.sacMemory == 0)
        return result;

    const Groups groups(stats);
    const GreedyOrder order = greedyOrder(stats, groups);
    Curve curve(result.sacMemory, result.sacRuntimeMs);
    const auto [viewMemory, viewMs] = groups.sumOfGroups(order.recomputed);
    curve.add(viewMemory, viewMs);
    for (const GreedyOrder::Candidate& candidate : order.candidates)
        curve.add(candidate.memory, candidate.ms);
    const auto [storedMemory, storedMs] = groups.sumOfGroups(order.stored);
    curve.add(storedMemory, storedMs);
    result.curve = curve.take();

    PiecewiseFit fit = fitCurve(result.curve);
    result.breakpoints = std::move(fit.breakpoints);
    result.slopes = std::move(fit.slopes);
    result.intercepts = std::move(fit.intercepts);
    return result;
}

} // namespace headroom
