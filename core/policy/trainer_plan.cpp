// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/policy/trainer_plan.h"

#include "core/base/elapsed.h"
#include "core/base/try.h"
#include "core/policy/policy_maker.h"
#include "core/policy/sharding.h"
#include "core/trace/phase_times.h"

#include <algorithm>
#include <map>
#include <set>

namespace headroom {

namespace {

constexpr std::size_t mostListedOps = 9; ///< number of a block's ops of which every list is tried

class TrainerPlanner
{
public:
    TrainerPlanner(const StepTracePtr& trace, const PlanRequest& request)
        : model_(trace)
        , trace_(*trace)
        , request_(request)
    {
        step_.plan.budget = request.budget;
        step_.plan.worldSize = request.worldSize;
        step_.plan.stepMs = forwardBackwardMs(*trace);
    }

    Result<PlannedStep> plan(Trainer trainer)
    {
        const auto begin = std::chrono::steady_clock::now();
        ASSIGN_OR_RETURN(std::vector<ModuleId> layers, trainer == Trainer::torchtitan ? blocks() : layersOfLists());
        RETURN_IF_ERROR(consider({}));
        step_.plan.baselinePeak = step_.plan.leastBudget;
        for (std::size_t n = 1; n <= layers.size(); ++n)
            RETURN_IF_ERROR(consider(everyNth(layers, n, trainer == Trainer::torchtitan ? n - 1 : 0)));
        if (trainer == Trainer::torchtitan)
            RETURN_IF_ERROR(considerLists(layers));
        RETURN_IF_ERROR(finish(trainer));
        step_.plan.solveMs = elapsedMs(begin);
        return std::move(step_);
    }

private:
    /// The blocks of torchtitan: the children of `layers`.
    Result<std::vector<ModuleId>> blocks() const
    {
        const std::string list = std::string(trace_.moduleFqn(ModuleId(0))) + ".layers";
        std::vector<ModuleId> found;
        for (std::uint32_t i = 1; i < trace_.modules.size(); ++i)
            if (trace_.moduleFqn(trace_.modules.parent[ModuleId(i)]) == list && !model_.regionOps(ModuleId(i)).empty())
                found.emplace_back(i);
        if (found.empty())
            return badInput("torchtitan checkpoints the blocks of " + list
                            + ", which this step does not have; torch_headroom.apply() applies any policy");
        return found;
    }

    /// The layers of transformers.
    Result<std::vector<ModuleId>> layersOfLists() const
    {
        std::vector<ModuleId> found;
        std::set<std::string_view> types;
        for (std::uint32_t i = 1; i < trace_.modules.size(); ++i) {
            const ModuleId module(i);
            if (!isTransformersLayer(trace_, module) || model_.regionOps(module).empty())
                continue;
            found.push_back(module);
            types.insert(trace_.moduleType(module));
        }
        if (found.empty())
            return badInput(
                "Hugging Face's Trainer checkpoints the layers in a model's lists, which this step does not "
                "have; torch_headroom.apply() applies any policy");
        if (types.size() > 1)
            return badInput("the step has lists of " + std::string(*types.begin()) + " and of "
                            + std::string(*types.rbegin())
                            + ", and which of them Hugging Face's Trainer checkpoints is "
                              "not in it; torch_headroom.apply() applies any policy");
        return found;
    }

    CheckpointPlan everyNth(const std::vector<ModuleId>& layers, std::size_t n, std::size_t first) const
    {
        CheckpointPlan regions;
        for (std::size_t i = first; i < layers.size(); i += n)
            regions.push_back({layers[i], {}});
        return regions;
    }

    /// Predicts a plan, and keeps it if it is the best so far.
    Status consider(CheckpointPlan regions)
    {
        ASSIGN_OR_RETURN(Timeline predicted, model_.predict(regions));
        ++step_.plan.nodes;
        auto timeline = std::make_shared<const Timeline>(perRank(std::move(predicted), request_.worldSize));
        const Bytes peak = timeline->peak;
        step_.plan.leastBudget = step_.plan.nodes == 1 ? peak : std::min(step_.plan.leastBudget, peak);
        if (peak > request_.budget
            || (step_.timeline != nullptr && timeline->recomputeMs >= step_.timeline->recomputeMs))
            return {};
        step_.timeline = std::move(timeline);
        step_.regions = std::move(regions);
        return {};
    }

    /// The ops of a block that torchtitan would keep if its list named them.
    std::map<StringId, std::vector<std::size_t>> listable(ModuleId block) const
    {
        const std::vector<OpId> ops = model_.regionOps(block);
        const std::vector<bool> savable = model_.savableOps(block);
        const std::vector<RegionOpName> names = regionOpNames(trace_, ops);
        std::map<StringId, std::vector<std::size_t>> places;
        std::set<StringId> impossible;
        for (std::size_t op = 0; op < ops.size(); ++op) {
            if (trace_.strings[names[op].op] == "aten.mm.default" && names[op].index % 2 != 0)
                continue; // recomputed in any case
            places[names[op].op].push_back(op);
            if (!savable[op] || (trace_.ops.flags[ops[op]] & opRandom) != 0)
                impossible.insert(names[op].op);
        }
        for (const StringId name : impossible)
            places.erase(name);
        return places;
    }

    Status considerLists(const std::vector<ModuleId>& layers)
    {
        std::vector<std::map<StringId, std::vector<std::size_t>>> places;
        std::map<StringId, double> ms;
        for (const ModuleId layer : layers) {
            places.push_back(listable(layer));
            const std::vector<OpId> ops = model_.regionOps(layer);
            for (const auto& [name, where] : places.back())
                for (const std::size_t op : where)
                    ms[name] += trace_.ops.ms[ops[op]];
        }
        // One list is for all blocks: an op that one block cannot keep is left out.
        std::vector<StringId> names;
        for (const auto& [name, time] : ms) {
            const auto everywhere = [&](std::size_t layer) {
                const std::vector<RegionOpName> ran = regionOpNames(trace_, model_.regionOps(layers[layer]));
                const bool runs = std::ranges::any_of(ran, [&](const auto& op) { return op.op == name; });
                return !runs || places[layer].contains(name);
            };
            bool possible = time > 0;
            for (std::size_t layer = 0; layer < layers.size() && possible; ++layer)
                possible = everywhere(layer);
            if (possible)
                names.push_back(name);
        }
        std::ranges::stable_sort(names, std::greater<>(), [&](StringId name) { return ms[name]; });
        names.resize(std::min(names.size(), mostListedOps));
        for (std::size_t list = 1; list < std::size_t{1} << names.size(); ++list) {
            CheckpointPlan regions;
            for (std::size_t layer = 0; layer < layers.size(); ++layer) {
                CheckpointRegion region{layers[layer],
                                        std::vector<bool>(model_.regionOps(layers[layer]).size(), false)};
                for (std::size_t i = 0; i < names.size(); ++i)
                    if ((list >> i & 1) != 0 && places[layer].contains(names[i]))
                        for (const std::size_t op : places[layer].at(names[i]))
                            region.save[op] = true;
                regions.push_back(std::move(region));
            }
            RETURN_IF_ERROR(consider(std::move(regions)));
        }
        return {};
    }

    Status finish(Trainer trainer)
    {
        Plan& plan = step_.plan;
        if (step_.timeline == nullptr) {
            plan.status = PlanStatus::infeasible;
            plan.reason = "no option of "
                + std::string(trainer == Trainer::torchtitan ? "torchtitan" : "Hugging Face's Trainer") + " fits "
                + formatBytes(plan.budget) + ": the step takes " + formatBytes(plan.leastBudget) + " ("
                + groupedDigits(plan.leastBudget)
                + " B) with the leanest; torch-headroom plan without --trainer may find more";
            return {};
        }
        plan.status = PlanStatus::optimal;
        plan.peak = step_.timeline->peak;
        plan.recomputeMs = plan.boundMs = step_.timeline->recomputeMs;
        ASSIGN_OR_RETURN(step_.effects, ModuleEffects(model_).of(step_.regions));
        plan.decisions = decisionsOf(trace_, step_.regions, step_.effects);
        return {};
    }

    const StepModel model_;
    const StepTrace& trace_;
    const PlanRequest& request_;
    PlannedStep step_;
};

} // namespace

Result<PlannedStep> planForTrainer(const StepTracePtr& trace, Trainer trainer, const PlanRequest& request)
{
    return TrainerPlanner(trace, request).plan(trainer);
}

} // namespace headroom
