// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/joint/ops_policy.h"

#include "core/base/try.h"
#include "core/joint/op_obstacles.h"
#include "core/policy/policy_maker.h"
#include "core/predict/regions.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace headroom {
namespace {

/// The plan's decisions on a module as a region. Sets `repeats` if the plan recomputes an op of the module.
CheckpointRegion regionOf(const StepModel& model, const OpsPlan& plan, ModuleId module, bool& repeats)
{
    const StepTrace& trace = *model.trace();
    const std::vector<OpId> ops = model.regionOps(module);
    const std::vector<bool> savable = model.savableOps(module);
    CheckpointRegion region{module, std::vector<bool>(ops.size(), false)};
    bool randomSaved = false;
    for (std::size_t i = 0; i < ops.size(); ++i) {
        repeats = repeats || std::ranges::binary_search(plan.recomputed, ops[i]);
        if (!savable[i])
            continue;
        region.save[i] = std::ranges::any_of(trace.ops.outputs[ops[i]], [&](StorageId storage) {
            return std::ranges::binary_search(plan.saved, storage);
        });
        // A random op that is recomputed after a saved random op would draw other numbers, and so is saved, too.
        const bool random = trace.ops.flags[ops[i]] & opRandom;
        region.save[i] = region.save[i] || (random && randomSaved);
        randomSaved = randomSaved || (random && region.save[i]);
    }
    return region;
}

bool isDifferentiated(const StepIndex& index, ModuleId module)
{
    return std::ranges::any_of(index.callsOf[module.value],
                               [&](CallId call) { return index.calls[call.value].saves(); });
}

/// The outermost modules that can be checkpointed, among `modules` and the modules inside, in the model's order.
std::vector<ModuleId> withoutObstacles(const StepTrace& trace, const std::vector<ModuleId>& modules,
                                       const std::vector<std::string_view>& obstacles)
{
    enum class State : std::uint8_t { outside, open, taken };
    std::vector<State> states(trace.modules.size(), State::outside);
    std::vector<ModuleId> found;
    for (std::uint32_t i = 0; i < trace.modules.size(); ++i) { // parents come first
        const ModuleId parent = trace.modules.parent[ModuleId(i)];
        if (parent.valid())
            states[i] = states[parent.value];
        if (std::ranges::find(modules, ModuleId(i)) != modules.end())
            states[i] = State::open;
        if (states[i] != State::open || !obstacles[i].empty())
            continue;
        states[i] = State::taken;
        found.emplace_back(i);
    }
    return found;
}

} // namespace

std::vector<ModuleId> blocksOf(const StepTrace& trace)
{
    const auto count = static_cast<std::uint32_t>(trace.modules.size());
    const auto& parents = trace.modules.parent;
    std::vector<bool> called(count, false); // false of a ModuleList
    for (const ModuleId module : trace.calls.module)
        called[module.value] = true;
    std::vector<bool> composite(count, false); // called, with children
    for (std::uint32_t i = 0; i < count; ++i)
        if (const ModuleId parent = parents[ModuleId(i)]; parent.valid())
            composite[parent.value] = called[parent.value];
    std::map<std::pair<ModuleId, StringId>, int> alike; // composite modules of a parent, by type
    for (std::uint32_t i = 0; i < count; ++i)
        if (composite[i])
            ++alike[{parents[ModuleId(i)], trace.modules.type[ModuleId(i)]}];
    std::vector<bool> inside(count, false);
    std::vector<ModuleId> blocks;
    for (std::uint32_t i = 0; i < count; ++i) {
        const ModuleId parent = parents[ModuleId(i)];
        inside[i] = parent.valid() && inside[parent.value];
        if (!composite[i] || !parent.valid() || inside[i] || alike[{parent, trace.modules.type[ModuleId(i)]}] < 2)
            continue;
        blocks.emplace_back(i);
        inside[i] = true;
    }
    if (blocks.empty() && count > 0)
        blocks.emplace_back(0U);
    return blocks;
}

Result<CheckpointPlan> opsRegions(const StepModel& model, const OpsPlan& plan, std::span<const ModuleId> modules)
{
    const StepTrace& trace = *model.trace();
    const std::vector<std::string_view> obstacles = opsObstacles(trace, model.index());
    for (const ModuleId module : modules)
        if (!obstacles[module.value].empty())
            return badInput(std::string(trace.moduleFqn(module))
                            + " cannot be checkpointed: " + std::string(obstacles[module.value]));
    std::vector<ModuleId> chosen(modules.begin(), modules.end());
    if (chosen.empty())
        chosen = withoutObstacles(trace, blocksOf(trace), obstacles);
    CheckpointPlan regions;
    for (const ModuleId module : chosen) {
        bool repeats = false;
        CheckpointRegion region = regionOf(model, plan, module, repeats);
        if (repeats && isDifferentiated(model.index(), module))
            regions.push_back(std::move(region));
    }
    return regions;
}

Result<Policy> opsPolicy(const StepModel& model, const OpsPlan& plan, std::span<const ModuleId> modules)
{
    const StepTrace& trace = *model.trace();
    ASSIGN_OR_RETURN(const CheckpointPlan regions, opsRegions(model, plan, modules));
    ASSIGN_OR_RETURN(const Timeline timeline, model.predict(regions));
    Plan asPlan;
    asPlan.status = PlanStatus::feasible;
    asPlan.budget = timeline.peak;
    asPlan.peak = timeline.peak;
    asPlan.recomputeMs = timeline.recomputeMs;
    ASSIGN_OR_RETURN(const std::vector<ModuleEffect> effects, ModuleEffects(model).of(regions));
    asPlan.decisions = decisionsOf(trace, regions, effects);
    return policyOf(model, regions, asPlan);
}

namespace {

constexpr int mostCallsApart = 4; ///< calls that a copy may take
// The number of predictions of a search; few of the plans take their share.
constexpr std::size_t fewestPredictions = 60;
constexpr std::size_t mostPredictions = 80'000;
constexpr std::size_t predictedEvents = 400'000'000; ///< of all predictions together, about

/// What alike modules may host: the results of a saved op, or the arguments.
struct HostableClass
{
    using Op = std::optional<RegionOpName>;
    Op op; ///< nullopt: the arguments
    StringId type; ///< of the modules
    Bytes bytes = 0; ///< of the module with the most
};

/// The arguments of a module's first call in training that may go to the host.
std::vector<StorageId> hostableArguments(const StepModel& model, ModuleId module)
{
    const StepTrace& trace = *model.trace();
    const std::vector<int> numbers = movedArgumentsOf(trace, model.index(), module);
    return numbers.empty() ? std::vector<StorageId>()
                           : argumentsOf(trace, decidingCall(model.index(), module), numbers);
}

Bytes bytesOf(const StepTrace& trace, std::span<const StorageId> storages)
{
    Bytes bytes = 0;
    for (const StorageId storage : storages)
        bytes += trace.storages.bytes[storage];
    return bytes;
}

/// The search for what the regions of a plan send to the host.
class Hosting
{
public:
    /// Counts `predictions` with hosted ops down; none are made at 0.
    Hosting(const StepModel& model, CheckpointPlan regions, const HostedLimits& limits, std::size_t& predictions)
        : model_(model)
        , limits_(limits)
        , predictions_(predictions)
        , regions_(std::move(regions))
    {
        findClasses();
        const auto firstCall = [&](std::size_t region) { return model.index().callsOf[module(region).value].front(); };
        for (std::size_t region = 0; region < regions_.size(); ++region)
            order_.push_back(region);
        std::ranges::sort(order_, {}, firstCall);
    }

    /// Offers what is better than `best` to `best`.
    Status improve(std::optional<PlanAnswer>& best) const
    {
        ASSIGN_OR_RETURN(const std::optional<PlanAnswer> plain, answerWith(regions_));
        if (plain) {
            offer(*plain, best);
            return {};
        }
        Choice choice;
        for (; choice.kept < regions_.size() && predictions_ > 0;
             choice.kept += std::max<std::size_t>(1, choice.kept / 2))
            for (choice.first = 0; choice.first < classes_.size(); ++choice.first) {
                std::size_t tooFew = choice.first;
                std::size_t enough = classes_.size() + 1;
                while (tooFew + 1 < enough) {
                    choice.end = enough > classes_.size() ? classes_.size() : (tooFew + enough) / 2;
                    ASSIGN_OR_RETURN(const std::optional<PlanAnswer> answer, answerWith(choice, {}));
                    (answer ? enough : tooFew) = choice.end;
                }
                if (enough > classes_.size())
                    break; // fewer classes hold no less
                for (const std::size_t end : {enough, classes_.size()}) {
                    choice.end = end;
                    RETURN_IF_ERROR(spread(choice, best));
                }
            }
        return {};
    }

private:
    /// Some classes, by size, except in the last modules, with which backward begins.
    struct Choice
    {
        std::size_t first = 0, end = 0; ///< classes
        std::size_t kept = 0; ///< number of the last modules
    };

    ModuleId module(std::size_t region) const { return regions_[region].module; }

    static void offer(const PlanAnswer& answer, std::optional<PlanAnswer>& best)
    {
        if (!best || answer.plan.costMs() < best->plan.costMs())
            best = answer;
    }

    void findClasses()
    {
        const StepTrace& trace = *model_.trace();
        std::map<std::pair<HostableClass::Op, StringId>, Bytes> found;
        for (std::size_t region = 0; region < regions_.size(); ++region) {
            const auto add = [&](const HostableClass::Op& op, Bytes bytes) {
                Bytes& most = found[{op, trace.modules.type[module(region)]}];
                most = std::max(most, bytes);
            };
            const std::vector<OpId> ops = model_.regionOps(module(region));
            names_.push_back(regionOpNames(trace, ops));
            may_.emplace_back(ops.size(), false);
            mayArguments_.push_back(false);
            if (model_.index().obstaclesToOffload[module(region).value] != CheckpointObstacle::none)
                continue;
            const std::vector<bool> hostable = hostableOps(trace, model_.index(), module(region));
            for (std::size_t op = 0; op < ops.size(); ++op) {
                may_.back()[op] = hostable[op] && regions_[region].save[op];
                if (may_.back()[op])
                    add(names_.back()[op], movedBytes(model_, ops[op]));
            }
            const Bytes bytes = bytesOf(trace, hostableArguments(model_, module(region)));
            mayArguments_.back() = bytes > 0;
            if (bytes > 0)
                add(std::nullopt, bytes);
        }
        for (const auto& [key, bytes] : found)
            classes_.push_back({key.first, key.second, bytes});
        std::ranges::stable_sort(classes_, std::ranges::greater(), &HostableClass::bytes);
    }

    /// The regions with the classes of a choice hosted.
    CheckpointPlan hosted(const Choice& choice, Offload when) const
    {
        CheckpointPlan plan = regions_;
        for (std::size_t i = 0; i + choice.kept < order_.size(); ++i) {
            CheckpointRegion& region = plan[order_[i]];
            const StringId type = model_.trace()->modules.type[region.module];
            const auto isChosen = [&](const HostableClass::Op& op) {
                return std::any_of(classes_.begin() + static_cast<std::ptrdiff_t>(choice.first),
                                   classes_.begin() + static_cast<std::ptrdiff_t>(choice.end),
                                   [&](const HostableClass& own) { return own.op == op && own.type == type; });
            };
            Hosted hosted{std::vector<bool>(region.save.size(), false), when};
            for (std::size_t op = 0; op < region.save.size(); ++op)
                hosted.ops[op] = may_[order_[i]][op] && isChosen(names_[order_[i]][op]);
            hosted.arguments = mayArguments_[order_[i]] && isChosen(std::nullopt);
            if (hosted.arguments || std::ranges::find(hosted.ops, true) != hosted.ops.end())
                region.hosted = std::move(hosted);
        }
        return plan;
    }

    /// Lets the copies take more calls, as long as that hides copies and the memory is there.
    Status spread(const Choice& choice, std::optional<PlanAnswer>& best) const
    {
        Offload when;
        ASSIGN_OR_RETURN(const std::optional<PlanAnswer> first, answerWith(choice, when));
        if (!first)
            return {};
        offer(*first, best);
        double least = first->plan.costMs();
        double exposedMs = first->plan.offload.exposedMs;
        for (int Offload::*const member : {&Offload::wait, &Offload::ahead})
            for (int calls = 1; calls <= mostCallsApart && exposedMs > 0; ++calls) {
                Offload now = when;
                now.*member = calls;
                ASSIGN_OR_RETURN(std::optional<PlanAnswer> answer, answerWith(choice, now));
                if (!answer && member == &Offload::ahead) {
                    ASSIGN_OR_RETURN(answer, answerWithFewer(choice, now));
                }
                if (!answer)
                    break;
                if (answer->plan.costMs() < least) {
                    least = answer->plan.costMs();
                    when = now;
                    offer(*answer, best);
                }
                exposedMs = answer->plan.offload.exposedMs;
            }
        return {};
    }

    /// As answerWith(), with the most results for which there is room early: at least one, and not all.
    Result<std::optional<PlanAnswer>> answerWithFewer(const Choice& choice, Offload& when) const
    {
        std::optional<PlanAnswer> answer;
        for (std::size_t early = choice.end - choice.first; !answer && early-- > 1;) {
            when.prefetch = static_cast<int>(early);
            ASSIGN_OR_RETURN(answer, answerWith(choice, when));
        }
        return answer;
    }

    /// Predicts the regions with a choice hosted; nullopt: beyond the limits, or no more predictions.
    Result<std::optional<PlanAnswer>> answerWith(const Choice& choice, Offload when) const
    {
        if (predictions_ == 0 || limits_.stop.stop_requested())
            return std::optional<PlanAnswer>();
        --predictions_;
        return answerWith(hosted(choice, when));
    }

    /// Predicts regions; nullopt: beyond the limits.
    Result<std::optional<PlanAnswer>> answerWith(CheckpointPlan regions) const
    {
        ASSIGN_OR_RETURN(Timeline timeline, model_.predict(regions));
        if ((limits_.hostMemory > 0 && timeline.hostBytes > limits_.hostMemory) || !limits_.fits(timeline))
            return std::optional<PlanAnswer>();
        PlanRequest request;
        request.budget = timeline.peak;
        request.offload = true;
        request.hostMemory = limits_.hostMemory;
        PlanAnswer found;
        found.plan.status = PlanStatus::feasible;
        found.plan.recomputeMs = timeline.recomputeMs;
        found.plan.leastBudget = timeline.peak;
        found.regions = std::move(regions);
        found.timeline = std::make_shared<const Timeline>(std::move(timeline));
        found.effects.resize(model_.trace()->modules.size());
        return std::optional(answerTo(request, model_, std::move(found)));
    }

    const StepModel& model_;
    const HostedLimits& limits_;
    std::size_t& predictions_;
    CheckpointPlan regions_;
    std::vector<std::size_t> order_; ///< regions in the order of the first calls
    std::vector<std::vector<RegionOpName>> names_; ///< by region and op
    std::vector<std::vector<bool>> may_; ///< by region and op: saved, and may be hosted
    std::vector<bool> mayArguments_; ///< by region: arguments may be hosted
    std::vector<HostableClass> classes_; ///< by descending bytes
};

/// What happens to each op under a policy of a frontier's plan.
OpsDecisions decisionsUnder(const PlanAnswer& policy, const OpsFrontierPtr& frontier)
{
    const StepModel& model = frontier->planner.model();
    const StepTrace& trace = *model.trace();
    OpsDecisions found{frontier, frontier->plans.size() - 1, {}, {}};
    found.decisions = opDecisions(trace, planAsRecorded(frontier->planner));
    for (const CheckpointRegion& region : policy.regions) {
        const std::vector<OpId> ops = model.regionOps(region.module);
        for (std::size_t i = 0; i < ops.size(); ++i) {
            const bool hosted = region.hosted && region.hosted->ops[i];
            const bool saved = !region.save.empty() && region.save[i];
            OpDecision& decision = found.decisions[ops[i].value];
            decision = hosted ? OpDecision::offloaded : saved ? OpDecision::saved : OpDecision::none;
            if (!hosted)
                continue;
            found.changed.push_back({ops[i], OpDecision::saved, OpDecision::offloaded, movedBytes(model, ops[i])});
        }
    }
    for (const OpRun& run : policy.timeline->runs)
        if (run.again && !(trace.ops.flags[run.op] & opView))
            found.decisions[run.op.value] = OpDecision::recomputed;
    for (const CheckpointRegion& region : policy.regions)
        if (region.hosted && region.hosted->arguments)
            for (const StorageId storage : hostableArguments(model, region.module)) {
                const OpId op = model.index().allocatedIn[storage.value];
                found.decisions[op.value] = OpDecision::offloaded;
                found.changed.push_back({op, OpDecision::saved, OpDecision::offloaded, trace.storages.bytes[storage]});
            }
    std::ranges::sort(found.changed, {}, &ChangedOp::op);
    return found;
}

} // namespace

Bytes movedBytes(const StepModel& model, OpId op)
{
    return bytesOf(*model.trace(), movedOutputsOf(*model.trace(), model.index(), op));
}

FrontierPoint pointOf(const PlanAnswer& policy)
{
    const Plan& plan = policy.plan;
    const auto& offload = plan.offload;
    return {plan.peak, plan.recomputeMs, 1, 0, offload.exposedMs, offload.moved, offload.host};
}

Result<PlanAnswer> hostedAnswer(const StepModel& model, std::span<const OpsPlan> plans,
                                std::span<const ModuleId> modules, const HostedLimits& limits)
{
    std::vector<std::pair<double, CheckpointPlan>> candidates; // with the recompute time
    for (const OpsPlan& plan : plans) {
        ASSIGN_OR_RETURN(CheckpointPlan regions, opsRegions(model, plan, modules));
        const auto same = [&](const auto& candidate) {
            return std::ranges::equal(candidate.second, regions,
                                      [](const CheckpointRegion& a, const CheckpointRegion& b) {
                                          return a.module == b.module && a.save == b.save;
                                      });
        };
        if (std::ranges::any_of(candidates, same))
            continue;
        ASSIGN_OR_RETURN(const Timeline timeline, model.predict(regions));
        candidates.emplace_back(timeline.recomputeMs, std::move(regions));
    }
    std::ranges::stable_sort(candidates, {}, &std::pair<double, CheckpointPlan>::first);
    std::optional<PlanAnswer> best;
    const std::size_t predictions
        = std::clamp(predictedEvents / (model.trace()->events.size() + 1), fewestPredictions, mostPredictions);
    std::size_t left = predictions;
    for (auto& [recomputeMs, regions] : candidates) {
        const bool noBetter = best && recomputeMs >= best->plan.costMs();
        if (noBetter || (best && left == 0) || limits.stop.stop_requested())
            break;
        const std::size_t share = std::max(fewestPredictions, predictions / candidates.size());
        std::size_t unused = share;
        RETURN_IF_ERROR(Hosting(model, std::move(regions), limits, unused).improve(best));
        left -= std::min(left, share - unused);
    }
    if (!best)
        return Error{ErrorKind::infeasible, "no policy by op fits, whatever goes to the host"};
    ASSIGN_OR_RETURN(best->effects, ModuleEffects(model).of(best->regions));
    best->plan.decisions = decisionsOf(*model.trace(), best->regions, best->effects);
    ASSIGN_OR_RETURN(best->offloads, offloadByModule(*model.trace(), model.index(), best->regions));
    if (hasClock(*model.trace())) {
        ASSIGN_OR_RETURN(best->clock, clockOf(*model.trace(), model.index(), best->regions));
    }
    return *std::move(best);
}

Result<PlanAnswer> hostedAnswer(const OpsFrontierPtr& frontier, const PlanRequest& request, const std::stop_token& stop)
{
    const HostedLimits limits{[&](const Timeline& timeline) { return timeline.peak <= request.budget; },
                              request.hostMemory, stop};
    ASSIGN_OR_RETURN(PlanAnswer found, hostedAnswer(frontier->planner.model(), frontier->plans, {}, limits));
    found.request = request;
    found.plan.budget = request.budget;
    found.plan.leastBudget = std::min(found.plan.peak, frontier->plans.front().peak);
    found.ops = std::make_shared<const OpsDecisions>(decisionsUnder(found, frontier));
    return found;
}

} // namespace headroom
