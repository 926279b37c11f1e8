// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/policy/card_planner.h"

#include "core/base/elapsed.h"
#include "core/base/try.h"
#include "core/plan/plan.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

namespace headroom {
namespace {

/// How a plan checkpoints a module and those inside of it: regions with modules numbered from it.
struct Option
{
    std::vector<std::tuple<std::uint32_t, std::vector<bool>, std::optional<Offload>, std::optional<Hosted>>> regions;
    std::size_t recomputed = 0; ///< number of ops

    bool operator<(const Option& other) const
    {
        return std::tie(recomputed, regions) < std::tie(other.recomputed, other.regions);
    }
    bool operator==(const Option& other) const { return regions == other.regions; }
};

/// Modules of which each can be checkpointed as each other.
using AlikeModules = std::vector<ModuleId>;

/// One past the last module inside of `module`: modules are in depth-first order.
std::uint32_t endOf(const StepTrace& trace, ModuleId module)
{
    std::uint32_t end = module.value + 1;
    while (end < trace.modules.size() && trace.modules.parent[ModuleId(end)].valid()
           && trace.modules.parent[ModuleId(end)].value >= module.value)
        ++end;
    return end;
}

/// What two modules have in common if one can be checkpointed as the other: classes and numbers of ops inside of them.
std::vector<std::pair<std::string_view, std::size_t>> shapeOf(const StepModel& model, ModuleId module)
{
    const StepTrace& trace = *model.trace();
    std::vector<std::pair<std::string_view, std::size_t>> shape;
    const std::uint32_t end = endOf(trace, module);
    for (std::uint32_t inside = module.value; inside < end; ++inside)
        shape.emplace_back(trace.moduleType(ModuleId(inside)), model.regionOps(ModuleId(inside)).size());
    return shape;
}

/// Groups of alike modules with the same parent.
std::vector<AlikeModules> alikeModules(const StepModel& model)
{
    const StepTrace& trace = *model.trace();
    std::map<std::pair<ModuleId, std::vector<std::pair<std::string_view, std::size_t>>>, AlikeModules> groups;
    for (std::uint32_t i = 1; i < trace.modules.size(); ++i) {
        const ModuleId module(i);
        if (!model.regionOps(module).empty())
            groups[{trace.modules.parent[module], shapeOf(model, module)}].push_back(module);
    }
    std::vector<AlikeModules> found;
    for (auto& [key, modules] : groups)
        if (modules.size() > 1)
            found.push_back(std::move(modules));
    return found;
}

std::vector<Option> optionsOf(const StepModel& model, const CheckpointPlan& plan, const AlikeModules& modules)
{
    std::vector<Option> options(modules.size());
    for (std::size_t i = 0; i < modules.size(); ++i) {
        const std::uint32_t end = endOf(*model.trace(), modules[i]);
        for (const CheckpointRegion& region : plan) {
            if (region.module.value < modules[i].value || region.module.value >= end)
                continue;
            options[i].regions.emplace_back(region.module.value - modules[i].value, region.save, region.offload,
                                            region.hosted);
            if (region.offload)
                continue;
            options[i].recomputed += region.save.empty()
                ? model.regionOps(region.module).size()
                : static_cast<std::size_t>(std::ranges::count(region.save, false));
        }
    }
    return options;
}

/// Spreads the options, which are sorted, so that each part of the list has its share of each.
std::vector<Option> spread(const std::vector<Option>& sorted)
{
    std::vector<Option> result(sorted.size());
    // The bits of a place, read backwards, order places so that neighbours lie far apart.
    std::vector<std::pair<std::size_t, std::size_t>> places;
    for (std::size_t place = 0; place < sorted.size(); ++place) {
        std::size_t reversed = 0;
        for (std::size_t bit = 1; bit < sorted.size(); bit <<= 1)
            reversed = reversed << 1 | ((place & bit) != 0 ? 1 : 0);
        places.emplace_back(reversed, place);
    }
    std::ranges::sort(places);
    for (std::size_t i = 0; i < sorted.size(); ++i)
        result[places[i].second] = sorted[i];
    return result;
}

/// The plan with other options for the modules of one group.
CheckpointPlan rearranged(const StepTrace& trace, CheckpointPlan plan, const AlikeModules& modules,
                          const std::vector<Option>& options)
{
    std::erase_if(plan, [&](const CheckpointRegion& region) {
        return std::ranges::any_of(modules, [&](ModuleId module) {
            return module <= region.module && region.module.value < endOf(trace, module);
        });
    });
    for (std::size_t i = 0; i < modules.size(); ++i)
        for (const auto& [offset, save, offload, hosted] : options[i].regions)
            plan.push_back({ModuleId(modules[i].value + offset), save, offload, hosted});
    std::ranges::sort(plan, {}, &CheckpointRegion::module);
    return plan;
}

} // namespace

std::vector<CheckpointPlan> arrangements(const StepModel& model, const CheckpointPlan& plan)
{
    const StepTrace& trace = *model.trace();
    using Order = std::function<std::vector<Option>(std::vector<Option>)>;
    const std::vector<Order> orders{
        [](std::vector<Option> sorted) { return sorted; },
        [](std::vector<Option> sorted) {
            std::ranges::reverse(sorted);
            return sorted;
        },
        spread,
    };
    std::vector<CheckpointPlan> found(orders.size(), plan);
    bool differ = false;
    for (const AlikeModules& modules : alikeModules(model)) {
        std::vector<Option> options = optionsOf(model, plan, modules);
        if (std::ranges::all_of(options, [&](const Option& option) { return option == options.front(); }))
            continue;
        differ = true;
        std::sort(options.begin(), options.end());
        for (std::size_t order = 0; order < orders.size(); ++order)
            found[order] = rearranged(trace, std::move(found[order]), modules, orders[order](options));
    }
    if (!differ)
        return {};
    std::erase_if(found, [&](const CheckpointPlan& other) {
        return std::ranges::equal(other, plan, [](const CheckpointRegion& a, const CheckpointRegion& b) {
            return a.module == b.module && a.save == b.save && a.offload == b.offload && a.hosted == b.hosted;
        });
    });
    return found;
}

namespace {

constexpr Bytes stepsOfRange = 400;
constexpr Bytes coarserSteps = 100; ///< below the least budget that is known
constexpr Bytes leastStepOfRange = 16; ///< after Patience::coarse: a shorter rest is not halved
constexpr std::int64_t workOfChange = 2; ///< of a change of memory that is replayed, in labels of a search
constexpr double sideSearchLimitMs = 15'000; ///< of a search for the least memory, or for other settings
constexpr double solveLimitMs = 150; ///< of each search after the first, whose bound is shown
constexpr double settingsLimitMs = 40; ///< the same for other settings with offload, where few searches are proven
constexpr double otherOrderTolerance = 1e-3; ///< by which the time of a plan in another order may be longer
constexpr double leastGain = 0.01; ///< share of forward and backward that other settings have to save

/// Bytes between the least budget and the step without a plan; 0: pins make each plan take more than that step.
Bytes rangeOf(const Plan& bound)
{
    return std::max<Bytes>(0, bound.baselinePeak - bound.leastBudget);
}

/// The plan that runs with the least memory among plans from the least budget up, each in all orders. The reserved peak
/// on an unlimited card, of one run each, tells which plans are worth a search for their least memory. Once stopped, or
/// after sideSearchLimitMs for each of the two parts, its result is of the plans that were looked at so far.
Result<std::pair<PlanAnswer, Bytes>> leastOfAll(const StepPlanner& planner, PlanRequest request, Card card,
                                                const Plan& bound, const std::stop_token& stop)
{
    constexpr int budgets = 8;
    constexpr std::size_t searched = 3;
    const StepTrace& step = *planner.trace();
    Card free = card;
    free.rules.capacity = 0;
    free.rules.memoryFraction = 0;
    std::vector<std::pair<Bytes, PlanAnswer>> plans; // by reserved peak
    SearchLimit limit = SearchLimit::after(sideSearchLimitMs, stop);
    const Bytes range = rangeOf(bound);
    for (int i = 0; i < budgets && !(limit.reached() && i > 0); ++i) {
        request.budget = bound.leastBudget + range / budgets * i;
        ASSIGN_OR_RETURN(const PlanAnswer planned, planner.solve(request));
        plans.emplace_back(runOnCard(free, step, *planned.timeline).reservedPeak, planned);
        for (CheckpointPlan& regions : arrangements(planner.model(), planned.regions)) {
            if (limit.reached())
                break;
            Result<PlanAnswer> other = planner.withRegions(planned, std::move(regions));
            if (other) // every module among them can be checkpointed
                plans.emplace_back(runOnCard(free, step, *other->timeline).reservedPeak, std::move(*other));
        }
    }
    std::ranges::stable_sort(plans, {}, &std::pair<Bytes, PlanAnswer>::first);
    std::pair<PlanAnswer, Bytes> best{{}, std::numeric_limits<Bytes>::max()};
    limit = SearchLimit::after(sideSearchLimitMs, stop);
    for (std::size_t i = 0; i < std::min(plans.size(), searched) && !(limit.reached() && i > 0); ++i)
        if (const Bytes least = leastMemory(card, step, *plans[i].second.timeline); i == 0 || least < best.second)
            best = {std::move(plans[i].second), least};
    return best;
}

/// Makes the answer for a card on which no plan runs. `tried`: the verdict of the last plan that was tried, if the plan
/// of least memory is not to be searched.
Result<PlanAnswer> noPlan(const StepPlanner& planner, PlanRequest request, const CardPtr& card,
                          const std::stop_token& stop, const std::optional<CardVerdict>& tried)
{
    request.budget = card->forTensors(); // which the reason names, if that is too little
    ASSIGN_OR_RETURN(PlanAnswer none, planner.solve(request));
    if (none.plan.status != PlanStatus::infeasible) {
        request.budget = 1;
        ASSIGN_OR_RETURN(none, planner.solve(request));
    }
    if (tried) {
        none.card = *tried;
    } else {
        ASSIGN_OR_RETURN(const auto least, leastOfAll(planner, request, *card, none.plan, stop));
        none.card = CardVerdict{card, runOnCard(*card, *planner.trace(), *least.first.timeline), least.second};
    }
    Plan& plan = none.plan;
    plan.budget = card->forTensors();
    if (plan.leastBudget <= plan.budget)
        plan.reason = "No plan that was tried runs on a card with " + formatBytes(card->given() + card->margin)
            + " for the allocator"
            + (card->margin > 0 ? ", of which " + formatBytes(card->margin) + " are left free" : std::string())
            + ", although tensors need " + formatBytes(plan.leastBudget) + " only: " + none.card->run.reason + ".";
    if (none.card->leastMemory > 0)
        plan.reason += " With " + formatBytes(none.card->leastMemory) + " for the allocator a plan runs.";
    return none;
}

/// Runs the plan, and if need be and `others`, the same plan in other orders of alike modules, on the card. Sets the
/// verdict's run, and replaces the plan of `answer` if an order runs that the plan does not have. Returns whether one
/// of them runs.
Result<bool> tryOrders(const StepPlanner& planner, PlanAnswer& answer, CardVerdict& verdict, bool others)
{
    const StepTrace& step = *planner.trace();
    ++verdict.tried;
    verdict.run = runOnCard(*verdict.card, step, *answer.timeline);
    if (verdict.run.runs || !others)
        return verdict.run.runs;
    const double most = answer.plan.recomputeMs * (1 + otherOrderTolerance);
    for (CheckpointPlan& regions : arrangements(planner.model(), answer.regions)) {
        const Result<Timeline> timeline = planner.model().predict(regions);
        if (!timeline || timeline->recomputeMs > most) // not checkpointable, or alike modules take longer there
            continue;
        ++verdict.tried;
        if (CardRun run = runOnCard(*verdict.card, step, *timeline); run.runs) {
            ASSIGN_OR_RETURN(PlanAnswer other, planner.withRegions(answer, std::move(regions)));
            if (other.plan.costMs() > answer.plan.costMs() * (1 + otherOrderTolerance)) // more copies are exposed
                continue;
            answer = std::move(other);
            verdict.run = std::move(run);
            return true;
        }
    }
    return false;
}

/// Returns the next budget to try after one whose plan has this peak: 1/400 of the range below the peak, or the next
/// lower multiple of 1/200 of the range, above the least budget or below the card's memory, as a search by hand tries.
Bytes nextBudget(const Plan& bound, Bytes peak, Bytes budget, Bytes range, Bytes most)
{
    const Bytes least = bound.leastBudget;
    if (budget <= least)
        return least - 1;
    const Bytes multiple = std::max<Bytes>(range / (stepsOfRange / 2), 1);
    const Bytes aboveLeast = least + (budget - 1 - least) / multiple * multiple;
    const Bytes belowMost = most - ((most - budget) / multiple + 1) * multiple;
    const Bytes belowPeak = peak - std::max<Bytes>(range / stepsOfRange, 1);
    return std::max({belowPeak, aboveLeast, belowMost});
}

bool isSamePlan(const Plan& a, const Plan& b)
{
    return a.peak == b.peak && a.recomputeMs == b.recomputeMs && a.decisions == b.decisions
        && a.offload.moved == b.offload.moved && a.offload.exposedMs == b.offload.exposedMs;
}

/// Settings that reserve less for some steps, expandable segments first. Those without splits leave large blocks to
/// large requests.
std::vector<AllocatorRules> alternatives(const AllocatorRules& rules)
{
    std::vector<AllocatorRules> found;
    AllocatorRules expandable = rules;
    expandable.expandableSegments = true;
    found.push_back(expandable);
    for (const Bytes size : {128 * MiB, 256 * MiB, 512 * MiB, 1024 * MiB}) {
        AllocatorRules unsplit = rules;
        unsplit.maxSplit = size;
        found.push_back(unsplit);
    }
    std::erase(found, rules);
    return found;
}

/// The plan that was tried last, and its verdict.
struct Tried
{
    PlanAnswer plan;
    CardVerdict verdict;
};

/// Tries plans for the card from `first`, the answer for the card's memory, to those of smaller budgets, until one runs
/// or takes `belowMs`. Each search takes at most `limitMs`.
Result<Tried> tryPlans(const StepPlanner& planner, PlanRequest request, const CardPtr& card, const PlanAnswer& first,
                       double belowMs, double limitMs, const std::stop_token& stop, const Patience& patience)
{
    request.budget = card->forTensors();
    Tried found{first, {card, {}}};
    auto& [next, verdict] = found;
    const Plan& bound = first.plan;
    const Bytes range = rangeOf(bound);
    std::optional<Plan> last; // that was tried
    std::int64_t work = next.plan.nodes;
    while (next.plan.status != PlanStatus::infeasible && next.plan.status != PlanStatus::stopped
           && next.plan.costMs() < belowMs) {
        if (!last || !isSamePlan(*last, next.plan)) {
            const int tried = verdict.tried;
            ASSIGN_OR_RETURN(const bool runs,
                             tryOrders(planner, next, verdict, work < patience.fine || work >= patience.coarse));
            if (runs)
                break;
            work += workOfChange * static_cast<std::int64_t>(next.timeline->changes.size()) * (verdict.tried - tried);
        }
        last = next.plan;
        const Bytes budget = std::min(request.budget, bound.baselinePeak);
        const Bytes peak = next.plan.peak;
        if (work < patience.coarse)
            request.budget = nextBudget(bound, peak, budget, range, card->forTensors());
        else // below the least budget the next lines set the least budget
            request.budget = peak - std::max({(peak - bound.leastBudget) / 2, range / leastStepOfRange, Bytes{1}});
        if (request.budget < bound.leastBudget)
            request.budget = budget > bound.leastBudget ? bound.leastBudget : bound.leastBudget - 1;
        // With a limit of host memory plans exist below the least budget that is known.
        if (request.budget >= budget)
            request.budget = next.plan.peak - std::max<Bytes>(bound.baselinePeak / coarserSteps, 1);
        if (request.budget < 1)
            break;
        ASSIGN_OR_RETURN(next, planner.solve(request, stop, limitMs));
        work += next.plan.nodes;
    }
    return found;
}

} // namespace

Result<PlanAnswer> planForCard(const StepPlanner& planner, PlanRequest request, const CardPtr& card,
                               const std::stop_token& stop, LeastMemory least, const Patience& patience)
{
    const auto begin = std::chrono::steady_clock::now();
    request.budget = card->forTensors();
    ASSIGN_OR_RETURN(const PlanAnswer first, planner.solve(request, stop));
    ASSIGN_OR_RETURN(
        Tried found,
        tryPlans(planner, request, card, first, std::numeric_limits<double>::infinity(), solveLimitMs, stop, patience));
    auto& [next, verdict] = found;
    if (!verdict.run.runs && next.plan.status != PlanStatus::stopped) {
        const bool isLeft = least == LeastMemory::left;
        ASSIGN_OR_RETURN(PlanAnswer none,
                         noPlan(planner, request, card, stop, isLeft ? std::optional(verdict) : std::nullopt));
        none.card->tried = verdict.tried;
        none.plan.solveMs = elapsedMs(begin);
        if (stop.stop_requested())
            none.plan.status = PlanStatus::stopped;
        return none;
    }
    next.card = std::move(verdict);
    Plan& plan = next.plan;
    if (plan.status == PlanStatus::stopped)
        return next;
    plan.budget = card->forTensors();
    const double ms = plan.costMs();
    plan.boundMs = std::min(first.plan.boundMs, ms);
    plan.gap = gapTo(plan.boundMs, ms);
    plan.status = plan.gap > 0 ? PlanStatus::feasible : first.plan.status;
    if (least == LeastMemory::searched)
        next.card->leastMemory = leastMemory(*card, *planner.trace(), *next.timeline);
    plan.solveMs = elapsedMs(begin);
    return next;
}

Result<std::optional<BetterSettings>> betterSettings(const StepPlanner& planner, const PlanRequest& request,
                                                     const PlanAnswer& found, const std::stop_token& stop,
                                                     const Patience& patience)
{
    const SearchLimit limit = SearchLimit::after(sideSearchLimitMs, stop);
    const Plan& plan = found.plan;
    std::optional<BetterSettings> best;
    const double before = found.runs() ? plan.costMs() : std::numeric_limits<double>::infinity();
    double least = found.runs() ? before - leastGain * plan.stepMs : before;
    if (found.runs() && (plan.gap == 0 || plan.boundMs >= least))
        return best;
    Card card = *found.card->card;
    PlanRequest atCard = request;
    atCard.budget = card.forTensors(); // with all settings
    ASSIGN_OR_RETURN(const PlanAnswer first, planner.solve(atCard, stop));
    const std::vector<AllocatorRules> all = alternatives(card.rules);
    for (const AllocatorRules& rules : all) {
        if (&rules != &all.front() && limit.reached())
            break;
        card.rules = rules;
        ASSIGN_OR_RETURN(const Tried other,
                         tryPlans(planner, request, std::make_shared<const Card>(card), first, least,
                                  request.offload ? settingsLimitMs : solveLimitMs, stop, patience));
        if (stop.stop_requested())
            return std::optional<BetterSettings>();
        if (!other.verdict.run.runs)
            continue;
        const double ms = other.plan.plan.costMs();
        best = BetterSettings{allocatorSettings(rules), other.plan.plan.recomputeMs, other.plan.plan.peak,
                              found.runs() ? before - ms : 0};
        least = ms - leastGain * plan.stepMs;
    }
    return best;
}

Result<PlanAnswer> planForCardAndSettings(const StepPlanner& planner, const PlanRequest& request, const CardPtr& card)
{
    ASSIGN_OR_RETURN(PlanAnswer answer, planForCard(planner, request, card));
    ASSIGN_OR_RETURN(answer.card->better, betterSettings(planner, request, answer));
    return answer;
}

} // namespace headroom
