// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/joint/ops_planner.h"

#include "core/base/bytes.h"
#include "core/base/try.h"
#include "core/joint/min_cut.h"
#include "core/joint/ops_schedule.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <tuple>
#include <utility>

namespace headroom {

namespace {

constexpr int refinements = 8; ///< the most rounds of refined()

/// Decisions of the knapsack for a plan, and for a single refinement of the plan. With tens of thousands of ops, many
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

namespace {

constexpr std::size_t cheapestTried = 24; ///< number of nodes that a single step of lowered() tries to drop
/// Limits of the number of replays that lowered() makes for a frontier.
constexpr std::size_t mostTrials = 600;
constexpr std::size_t fewestTrials = 8;
constexpr std::size_t trialEvents = 4'000'000; ///< the events of all replays together

} // namespace

struct OpsPlanner::Shared
{
    Shared(StepModel step, JointGraph joint)
        : model(std::move(step))
        , graph(std::move(joint))
        , cuts(graph)
        , scheduler(graph)
        , events(*graph.trace)
        , cheapest(cuts.solve({}))
        , careless(cuts.solve(withoutHeuristics))
        , aggressive(cuts.solve(allThatIsCheap))
        , standard(scheduler.of(graph.among(cheapest.saved)))
        , none(leastSaving())
    {
        const OpsSchedule everything = scheduler.of(std::vector<bool>(graph.values.size(), true));
        recordedPeak = replayOps(graph, events, everything).peak;
        recorded = tallyOps(graph, events, everything);
    }

    /// The schedule that saves least. Without any saved value, the scheduler saves what the ops that run once make. A
    /// small value between such an op and backward may do in place of the op's own: that is a cut.
    OpsSchedule leastSaving() const;
    std::string whyTooLittle() const;
    OpsSchedule scheduleOf(const OpsPlan& plan) const { return scheduler.of(graph.among(plan.saved)); }

    OpsPlan finished(const OpsRequest& request, Bytes cap, const OpsCandidate& candidate) const;
    std::vector<OpsPlan> paretoOf(std::vector<OpsPlan> plans) const;
    /// A plan for a smaller fraction with a lower peak than `from`: lowered() drops saved values of `from`, the
    /// cheapest to recompute first, as long as the peak does not rise. Counts `trials` down.
    std::optional<OpsPlan> lowered(const OpsPlan& from, const OpsRequest& request, int& trials) const;

    StepModel model;
    JointGraph graph;
    MinCutProblem cuts;
    OpsScheduler scheduler;
    OpEvents events;
    MinCut cheapest, careless, aggressive; ///< by PyTorch's rules, withoutHeuristics and allThatIsCheap
    OpsSchedule standard; ///< schedule of fraction 1
    OpsSchedule none; ///< schedule of fraction 0
    Bytes recordedPeak = 0;
    ModuleTally recorded; ///< tally of the step as recorded
};

namespace {

/// The cap of a fraction, in whole bytes. A fraction computed as bytes / standard gives exactly `bytes`.
Bytes capOf(double fraction, Bytes standard)
{
    return static_cast<Bytes>(std::floor(fraction * static_cast<double>(standard) + 1e-3));
}

Status checkFraction(double fraction)
{
    if (fraction >= 0 && fraction <= 1)
        return {};
    return badInput("the fraction of activation memory is " + std::to_string(fraction)
                    + ": expected a number from 0 (as little as possible is kept) to 1 (what torch.compile keeps by "
                      "default)");
}

} // namespace

OpsPlanner::OpsPlanner(std::shared_ptr<const Shared> shared)
    : shared_(std::move(shared))
{
}

Result<OpsPlanner> OpsPlanner::create(StepModel model)
{
    ASSIGN_OR_RETURN(JointGraph graph, buildJointGraph(model));
    return OpsPlanner(std::make_shared<const Shared>(std::move(model), std::move(graph)));
}

const StepModel& OpsPlanner::model() const noexcept
{
    return shared_->model;
}

const JointGraph& OpsPlanner::graph() const noexcept
{
    return shared_->graph;
}

Bytes OpsPlanner::defaultSavedBytes() const noexcept
{
    return shared_->standard.savedBytes;
}

Bytes OpsPlanner::recordedPeak() const noexcept
{
    return shared_->recordedPeak;
}

Result<OpsPlan> OpsPlanner::plan(const OpsRequest& request) const
{
    RETURN_IF_ERROR(checkFraction(request.fraction));
    if (!request.measuredMs.empty() && request.measuredMs.size() != shared_->graph.trace->ops.size())
        return badInput("the measured times are of " + std::to_string(request.measuredMs.size())
                        + " ops: expected a time for each of the step's "
                        + std::to_string(shared_->graph.trace->ops.size()));
    const OpsCandidates planning(shared_->graph, shared_->cuts, shared_->scheduler, request);
    const Bytes cap = capOf(request.fraction, defaultSavedBytes());
    const Bytes least = shared_->none.savedBytes;
    if (request.fraction == 1)
        return shared_->finished(request, cap, planning.candidate(shared_->standard));
    if (least > cap)
        return Error{ErrorKind::infeasible, shared_->whyTooLittle()};
    if (request.fraction == 0)
        return shared_->finished(request, cap, planning.candidate(shared_->none));

    OpsCandidate best = planning.candidate(shared_->none);
    const auto offer = [&](OpsCandidate candidate) {
        if (candidate.schedule.savedBytes <= cap && better(candidate, best))
            best = std::move(candidate);
    };
    offer(planning.candidate(shared_->standard));
    offer(planning.candidateOf(shared_->careless.saved));
    offer(planning.candidateOf(shared_->aggressive.saved));
    ASSIGN_OR_RETURN(std::vector<OpsCandidate> solved, planning.byKnapsack(shared_->aggressive.banned, cap - least));
    for (OpsCandidate& candidate : solved)
        offer(std::move(candidate));
    ASSIGN_OR_RETURN(OpsCandidate refined, planning.refined(std::move(best), cap));
    return shared_->finished(request, cap, std::move(refined));
}

OpsSchedule OpsPlanner::Shared::leastSaving() const
{
    const std::vector<bool> all(graph.nodes.size(), true);
    OpsSchedule least = scheduler.of(std::vector<bool>(graph.values.size(), false));
    for (OpsSchedule& other : std::vector{scheduler.of(graph.among(cuts.solve(allThatIsCheap, all).saved)), standard})
        if (other.savedBytes < least.savedBytes)
            least = std::move(other);
    return least;
}

std::string OpsPlanner::Shared::whyTooLittle() const
{
    std::string reason = "the ops change tensors that other ops read";
    if (!graph.keptModules.empty())
        reason = std::string(graph.trace->moduleFqn(graph.keptModules.front().module))
            + " cannot be checkpointed: " + std::string(graph.keptModules.front().reason);
    return "ops that cannot run again (" + reason + ") keep " + formatBytes(none.savedBytes)
        + ": expected a fraction of at least "
        + std::to_string(static_cast<double>(none.savedBytes) / static_cast<double>(standard.savedBytes));
}

OpsPlan OpsPlanner::Shared::finished(const OpsRequest& request, Bytes cap, const OpsCandidate& candidate) const
{
    const OpsSchedule& schedule = candidate.schedule;
    OpsPlan plan;
    plan.fraction = request.fraction;
    plan.cap = cap;
    plan.savedBytes = schedule.savedBytes;
    plan.recomputeFlops = candidate.flops;
    plan.recomputeMs = candidate.ms;
    plan.cost = candidate.cost;
    for (std::size_t i = 0; i < schedule.saved.size(); ++i)
        if (schedule.saved[i])
            plan.saved.push_back(graph.values[i].storage);
    std::ranges::sort(plan.saved);
    const StepTrace& trace = *graph.trace;
    plan.dropped.reserve(trace.packs.size());
    for (std::uint32_t pack = 0; pack < trace.packs.size(); ++pack) {
        const ValueId value = graph.packed(PackId(pack));
        plan.dropped.push_back(value.valid() && graph.takesMemory(value) && !schedule.saved[value.value]);
    }
    for (const OpsSchedule::Run& run : schedule.runs) {
        plan.recomputations.push_back({run.pack, EventIndex(run.unpack), opsOf(graph, run.nodes)});
        const std::vector<OpId>& ops = plan.recomputations.back().ops;
        plan.recomputed.insert(plan.recomputed.end(), ops.begin(), ops.end());
    }
    std::ranges::sort(plan.recomputed);
    plan.peak = replayOps(graph, events, schedule).peak;
    return plan;
}

Timeline OpsPlanner::timeline(const OpsPlan& plan) const
{
    return replayOps(shared_->graph, shared_->events, shared_->scheduleOf(plan));
}

std::vector<ModuleEffect> OpsPlanner::effects(const OpsPlan& plan) const
{
    return moduleEffects(shared_->recorded, tallyOps(shared_->graph, shared_->events, shared_->scheduleOf(plan)));
}

StepClock OpsPlanner::clock(const OpsPlan& plan) const
{
    const OpsSchedule schedule = shared_->scheduleOf(plan);
    const StepTrace& trace = *shared_->graph.trace;
    std::vector<IssuedOp> issued;
    auto run = schedule.runs.begin();
    for (std::uint32_t i = 0; i < trace.events.size(); ++i) {
        const EventIndex event(i);
        const std::uint32_t what = trace.events.a[event];
        if (trace.events.kind[event] == EventKind::opBegin)
            issued.push_back({OpId(what)});
        else if (trace.events.kind[event] == EventKind::mark && static_cast<Mark>(what) == Mark::stepBegin)
            issued.clear(); // earlier ops belong to another step
        for (; run != schedule.runs.end() && run->unpack <= i; ++run)
            for (const OpId op : opsOf(shared_->graph, run->nodes))
                issued.push_back({op, true});
    }
    return clockOfOps(trace, issued);
}

std::optional<OpsPlan> OpsPlanner::Shared::lowered(const OpsPlan& from, const OpsRequest& request, int& trials) const
{
    const OpsCandidates planning(graph, cuts, scheduler, request);
    const Bytes cap = capOf(request.fraction, standard.savedBytes);
    const std::vector<bool> saved = graph.among(from.saved);
    std::vector<NodeId> nodes;
    for (const StorageId storage : from.saved) {
        const ValueId value = graph.valueOf[storage.value];
        if (nodes.empty() || nodes.back() != graph[value].node)
            nodes.push_back(graph[value].node);
    }
    std::erase_if(nodes, [&](NodeId node) { return graph[node].repeat == Repeat::once; });
    const auto price = [&](NodeId node) {
        Bytes bytes = 0;
        for (const ValueId value : graph[node].makes)
            bytes += saved[value.value] ? graph[value].bytes : 0;
        return planning.cost(node) / static_cast<double>(std::max<Bytes>(bytes, 1));
    };
    std::ranges::stable_sort(nodes, {}, price);
    OpsCandidate now = planning.candidate(scheduler.of(saved));
    while (now.schedule.savedBytes > cap) {
        bool dropped = false;
        for (std::size_t i = 0; i < std::min(nodes.size(), cheapestTried) && !dropped && trials > 0; ++i) {
            std::vector<bool> fewer = now.schedule.saved;
            for (const ValueId value : graph[nodes[i]].makes)
                fewer[value.value] = false;
            OpsCandidate next = planning.candidate(scheduler.of(std::move(fewer)));
            --trials;
            dropped = next.schedule.savedBytes < now.schedule.savedBytes
                && replayOps(graph, events, next.schedule).peak <= from.peak;
            if (!dropped)
                continue;
            now = std::move(next);
            nodes.erase(nodes.begin() + static_cast<std::ptrdiff_t>(i));
        }
        if (!dropped)
            return std::nullopt;
    }
    OpsPlan plan = finished(request, cap, now);
    return plan.peak < from.peak ? std::optional(std::move(plan)) : std::nullopt;
}

/// The Pareto-optimal plans in peak and cost, by ascending peak. Since a plan for a fraction is also a plan for every
/// larger fraction, fractions are raised so that they ascend with the peaks.
std::vector<OpsPlan> OpsPlanner::Shared::paretoOf(std::vector<OpsPlan> plans) const
{
    std::ranges::sort(plans, {}, [](const OpsPlan& plan) {
        return std::tuple(plan.peak, plan.cost, plan.recomputeMs, plan.fraction);
    });
    std::vector<OpsPlan> best;
    for (OpsPlan& plan : plans) {
        if (!best.empty()) {
            const OpsPlan& before = best.back();
            if (std::tie(plan.cost, plan.recomputeMs) >= std::tie(before.cost, before.recomputeMs))
                continue;
            plan.fraction = std::max(plan.fraction, before.fraction);
            plan.cap = capOf(plan.fraction, standard.savedBytes);
        }
        best.push_back(std::move(plan));
    }
    return best;
}

Result<std::vector<OpsPlan>> OpsPlanner::frontier(const OpsRequest& request, int points,
                                                  const std::stop_token& stop) const
{
    // The cheapest plan of a fraction may have a higher peak than the plan of a larger fraction, since recomputed
    // values live until the use. Then lowered() searches another plan, from the plan of the lowest peak so far.
    std::vector<OpsPlan> plans;
    OpsPlan lowest;
    OpsRequest one = request;
    const std::size_t events = shared_->graph.trace->events.size();
    auto trials = static_cast<int>(std::clamp(trialEvents / (events + 1), fewestTrials, mostTrials));
    const int last = std::max(points, 2) - 1;
    for (int point = last; point >= 0 && !stop.stop_requested(); --point) {
        one.fraction = static_cast<double>(point) / last;
        Result<OpsPlan> plan = this->plan(one);
        if (!plan && plan.error().kind == ErrorKind::infeasible)
            break;
        if (!plan)
            return plan.error();
        plans.push_back(*plan);
        if (point == last || plan->peak < lowest.peak) {
            lowest = *std::move(plan);
        } else if (plan->saved != lowest.saved) {
            if (std::optional<OpsPlan> other = shared_->lowered(lowest, one, trials)) {
                lowest = *std::move(other);
                plans.push_back(lowest);
            }
        }
    }
    return shared_->paretoOf(std::move(plans));
}

Result<OpsPlan> OpsPlanner::planSaving(const std::vector<StorageId>& saved, double fraction) const
{
    OpsRequest request;
    request.fraction = fraction;
    RETURN_IF_ERROR(checkFraction(fraction));
    const OpsCandidates planning(shared_->graph, shared_->cuts, shared_->scheduler, request);
    OpsPlan plan = shared_->finished(request, capOf(fraction, defaultSavedBytes()),
                                     planning.candidate(shared_->scheduler.of(shared_->graph.among(saved))));
    if (plan.saved != saved)
        return badInput("the plan saves " + std::to_string(saved.size()) + " values, but this step has to save "
                        + std::to_string(plan.saved.size()) + ": plan the step that is run");
    return plan;
}

Result<OpsPlan> OpsPlanner::planMonotone(const OpsRequest& request, int points) const
{
    Result<OpsPlan> strict = plan(request);
    if (!strict)
        return strict;
    ASSIGN_OR_RETURN(const std::vector<OpsPlan> plans, frontier(request, points));
    const OpsPlan& lowest = choose(plans, request.fraction);
    return lowest.peak < strict->peak ? Result<OpsPlan>(lowest) : strict;
}

const OpsPlan& OpsPlanner::choose(const std::vector<OpsPlan>& frontier, double fraction)
{
    const auto above = std::ranges::upper_bound(frontier, fraction, {}, &OpsPlan::fraction);
    return above == frontier.begin() ? frontier.front() : *std::prev(above);
}

} // namespace headroom
