// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/policy/trainer_plan.h"

#include "core/base/elapsed.h"
#include "core/base/try.h"
#include "core/policy/policy_maker.h"
#include "core/policy/shard_options.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

namespace headroom {

namespace {

/// A list of modules of one type, such as transformer layers, and the policy of each.
struct Blocks
{
    std::string list; ///< fqn of the module that holds them
    std::string type;
    std::vector<const Policy::Module*> policies; ///< in the order of the blocks; null: not checkpointed
};

Error cannot(std::string_view trainer, std::string why)
{
    return badInput(std::string(trainer) + " cannot express this plan: " + std::move(why)
                    + "; torch_headroom.apply() applies any policy");
}

std::string parentOf(std::string_view fqn)
{
    const std::size_t dot = fqn.rfind('.');
    return std::string(dot == std::string_view::npos ? std::string_view() : fqn.substr(0, dot));
}

/// The list of blocks that a policy checkpoints. The policy must have a module.
Result<Blocks> findBlocks(const StepTrace& trace, const Policy& policy, std::string_view trainer)
{
    Blocks blocks;
    blocks.list = parentOf(policy.modules.front().fqn);
    std::map<std::string_view, const Policy::Module*> chosen;
    for (const Policy::Module& module : policy.modules) {
        if (parentOf(module.fqn) != blocks.list)
            return cannot(trainer,
                          "the policy checkpoints " + policy.modules.front().fqn + " and " + module.fqn
                              + ", and the two are not blocks of the same list");
        chosen.emplace(module.fqn, &module);
    }
    bool alike = true;
    for (std::uint32_t i = 0; i < trace.modules.size(); ++i) {
        const ModuleId module(i);
        const std::string_view fqn = policyFqn(trace, module);
        if (parentOf(fqn) != blocks.list)
            continue;
        const std::string_view type = trace.moduleType(module);
        if (blocks.type.empty())
            blocks.type = type;
        alike = alike && type == blocks.type;
        const auto found = chosen.find(fqn);
        blocks.policies.push_back(found != chosen.end() ? found->second : nullptr);
    }
    if (!alike || blocks.policies.size() < 2)
        return cannot(trainer,
                      "the policy checkpoints " + policy.modules.front().fqn
                          + ", and that is no block of a list of equal blocks");
    return blocks;
}

bool isWhole(const Policy::Module& module)
{
    return std::ranges::none_of(module.ops, &Policy::Op::save);
}

bool allWhole(const Blocks& blocks)
{
    return std::ranges::all_of(blocks.policies,
                               [](const auto* module) { return module == nullptr || isWhole(*module); });
}

/// The n for which torchtitan checkpoints these blocks: it counts from 1 and checkpoints those that n divides. 0: no n
/// does.
std::size_t frequency(const Blocks& blocks)
{
    const auto first = std::ranges::find_if(blocks.policies, [](const auto* module) { return module != nullptr; });
    const std::size_t n = static_cast<std::size_t>(first - blocks.policies.begin()) + 1;
    for (std::size_t i = 0; i < blocks.policies.size(); ++i)
        if ((blocks.policies[i] != nullptr) != ((i + 1) % n == 0))
            return 0;
    return n;
}

/// The op of which torchtitan keeps only every second call in a block, the first included, whatever its list says.
constexpr std::string_view everySecond = "aten.mm.default";

/// The ops for torchtitan's list: it keeps all calls of an op in every block, or none.
Result<std::set<std::string>> savedOps(const Blocks& blocks)
{
    struct Calls
    {
        const Policy::Module* keeps = nullptr; ///< a block that keeps one
        const Policy::Module* drops = nullptr;
    };
    std::map<std::string, Calls> ops;
    for (const Policy::Module* module : blocks.policies) {
        if (module == nullptr)
            return cannot("torchtitan",
                          "the policy keeps ops in some blocks of " + blocks.list
                              + " and does not checkpoint other blocks");
        for (const Policy::Op& op : module->ops) {
            if (op.op == everySecond && op.index % 2 != 0 && !op.save)
                continue; // dropped in any case
            const bool drops = !op.save || (op.op == everySecond && op.index % 2 != 0);
            (drops ? ops[op.op].drops : ops[op.op].keeps) = module;
        }
    }
    std::set<std::string> saved;
    for (const auto& [op, calls] : ops) {
        if (calls.keeps != nullptr && calls.drops != nullptr)
            return cannot("torchtitan",
                          "the policy keeps " + op + " in " + calls.keeps->fqn
                              + " but not everywhere, and torchtitan keeps "
                              + (op == everySecond ? "every second call, the first included," : "all calls of an op")
                              + " or none");
        if (calls.keeps != nullptr)
            saved.insert(op);
    }
    return saved;
}

Result<std::string> torchtitan(const StepTrace& trace, const Policy& policy)
{
    // Without early_stop a block runs again to its end, beyond what backward needs.
    const std::string section = "# torchtitan 0.2; 0.3 has no early_stop and takes more memory\n"
                                "[activation_checkpoint]\n";
    const std::string stop = "early_stop = true\n";
    if (policy.modules.empty())
        return section + "mode = \"none\"\n";
    ASSIGN_OR_RETURN(const Blocks blocks, findBlocks(trace, policy, "torchtitan"));
    const std::string layers = std::string(policyFqn(trace, ModuleId(0))) + ".layers";
    if (blocks.list != layers)
        return cannot("torchtitan",
                      "the policy checkpoints blocks of " + blocks.list + ", and torchtitan only blocks of " + layers);
    if (allWhole(blocks)) {
        const std::size_t n = frequency(blocks);
        if (n == 1)
            return section + "mode = \"full\"\n" + stop;
        if (n == 0)
            return cannot("torchtitan", "the policy checkpoints neither all blocks of " + layers + " nor every n-th");
        return section + "mode = \"selective\"\nselective_ac_option = \"" + std::to_string(n) + "\"\n" + stop;
    }
    ASSIGN_OR_RETURN(const std::set<std::string> saved, savedOps(blocks));
    std::string config = section + "mode = \"selective\"\nselective_ac_option = \"op\"\n" + stop
        + "\n# In the model's parallelize.py, for apply_ac():\n# _op_sac_save_list = {\n";
    for (const std::string& op : saved)
        config += "#     torch.ops." + op + ",\n";
    return config + "# }\n";
}

/// The name of a ModuleList that neither contains modules of `type` nor is inside one; empty if there is none.
std::string otherList(const StepTrace& trace, std::string_view type)
{
    std::vector<bool> inside(trace.modules.size(), false);
    std::vector<bool> around(trace.modules.size(), false);
    for (std::uint32_t i = 0; i < trace.modules.size(); ++i) {
        const ModuleId module(i);
        const ModuleId parent = trace.modules.parent[module];
        inside[i] = trace.moduleType(module) == type || (parent.valid() && inside[parent.value]);
        if (trace.moduleType(module) == type)
            for (ModuleId m = parent; m.valid(); m = trace.modules.parent[m])
                around[m.value] = true;
    }
    for (std::uint32_t i = 0; i < trace.modules.size(); ++i)
        if (trace.moduleType(ModuleId(i)) == "ModuleList" && !inside[i] && !around[i])
            return std::string(policyFqn(trace, ModuleId(i)));
    return {};
}

/// The n for which transformers checkpoints the `chosen` layers: of the layers of all lists the first, then every n-th.
/// 0: no n does.
std::size_t transformersFrequency(const std::vector<bool>& chosen)
{
    const auto second = std::find(chosen.begin() + (chosen.empty() ? 0 : 1), chosen.end(), true);
    const auto n = static_cast<std::size_t>(second - chosen.begin());
    for (std::size_t i = 0; i < chosen.size(); ++i)
        if (chosen[i] != (i % n == 0))
            return 0;
    return n;
}

Result<std::string> huggingFace(const StepTrace& trace, const Policy& policy)
{
    constexpr const char* trainer = "Hugging Face's Trainer";
    if (policy.modules.empty())
        return std::string("TrainingArguments(gradient_checkpointing=False)\n");
    std::set<std::string_view> names;
    for (const Policy::Module& module : policy.modules) {
        names.insert(module.fqn);
        if (!isWhole(module))
            return cannot(trainer,
                          "the policy keeps ops inside of " + module.fqn + ", and the Trainer recomputes all ops");
    }
    std::vector<ModuleId> layers; // all layers of the type that the policy checkpoints
    std::vector<bool> chosen;
    std::string_view type;
    for (std::uint32_t i = 0; i < trace.modules.size(); ++i)
        if (type.empty() && names.contains(policyFqn(trace, ModuleId(i))))
            type = trace.moduleType(ModuleId(i));
    for (std::uint32_t i = 0; i < trace.modules.size(); ++i) {
        if (trace.moduleType(ModuleId(i)) != type || !isTransformersLayer(trace, ModuleId(i)))
            continue;
        layers.emplace_back(i);
        chosen.push_back(names.erase(policyFqn(trace, ModuleId(i))) > 0);
    }
    if (!names.empty() || layers.size() < 2)
        return cannot(trainer,
                      "the policy checkpoints "
                          + (names.empty() ? policy.modules.front().fqn : std::string(*names.begin()))
                          + ", and the Trainer only layers of a single type");
    if (const std::string list = otherList(trace, type); !list.empty())
        return cannot(trainer,
                      "the policy does not checkpoint " + list
                          + ", and the Trainer would checkpoint the layers of that list, too");
    const std::size_t n = transformersFrequency(chosen);
    if (n == 0)
        return cannot(trainer,
                      "the policy checkpoints " + std::to_string(policy.modules.size()) + " of "
                          + std::to_string(layers.size())
                          + " layers, and the Trainer all, or the first and then every n-th");
    if (n == 1)
        return std::string("TrainingArguments(gradient_checkpointing=True, "
                           "gradient_checkpointing_kwargs={\"use_reentrant\": False})\n");
    return "# every_n_layers is there in transformers 5.23\nTrainingArguments(activation_checkpointing=True, "
           "activation_checkpointing_kwargs={\"use_reentrant\": False, \"every_n_layers\": "
        + std::to_string(n) + "})\n";
}

} // namespace

bool isTransformersLayer(const StepTrace& trace, ModuleId module)
{
    int lists = 0;
    const ModuleId list = trace.modules.parent[module];
    for (ModuleId m = list; m.valid(); m = trace.modules.parent[m])
        lists += trace.moduleType(m) == "ModuleList" ? 1 : 0;
    return lists == 1 && trace.moduleType(list) == "ModuleList";
}

Result<Trainer> parseTrainer(std::string_view name)
{
    if (name == "torchtitan")
        return Trainer::torchtitan;
    if (name == "huggingface")
        return Trainer::huggingFace;
    return badInput("unknown trainer `" + std::string(name) + "`; known are torchtitan, huggingface");
}

Result<std::string> trainerConfig(const StepTrace& trace, const Policy& policy, Trainer trainer)
{
    return trainer == Trainer::torchtitan ? torchtitan(trace, policy) : huggingFace(trace, policy);
}

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
    }

    Result<PlanAnswer> plan(Trainer trainer)
    {
        const auto begin = std::chrono::steady_clock::now();
        ASSIGN_OR_RETURN(std::vector<ModuleId> layers, trainer == Trainer::torchtitan ? blocks() : layersOfLists());
        RETURN_IF_ERROR(consider({}));
        for (std::size_t n = 1; n <= layers.size(); ++n)
            RETURN_IF_ERROR(consider(everyNth(layers, n, trainer == Trainer::torchtitan ? n - 1 : 0)));
        if (trainer == Trainer::torchtitan)
            RETURN_IF_ERROR(considerLists(layers));
        ASSIGN_OR_RETURN(PlanAnswer answer, answered(trainer));
        answer.plan.solveMs = elapsedMs(begin);
        return answer;
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
                            + ", and this step has no such list; torch_headroom.apply() applies any policy");
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
            return badInput("Hugging Face's Trainer checkpoints the layers in a model's lists, and this step has no "
                            "such list; torch_headroom.apply() applies any policy");
        if (types.size() > 1)
            return badInput("the step has lists of " + std::string(*types.begin()) + " and of "
                            + std::string(*types.rbegin())
                            + ", and does not tell the list that Hugging Face's Trainer checkpoints; "
                              "torch_headroom.apply() applies any policy");
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
        ++best_.plan.nodes;
        auto timeline = std::make_shared<const Timeline>(perRank(std::move(predicted), request_.worldSize));
        const Bytes peak = timeline->peak;
        best_.plan.leastBudget = best_.plan.nodes == 1 ? peak : std::min(best_.plan.leastBudget, peak);
        if (peak > request_.budget
            || (best_.timeline != nullptr && timeline->recomputeMs >= best_.timeline->recomputeMs))
            return {};
        best_.timeline = std::move(timeline);
        best_.regions = std::move(regions);
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

    Result<PlanAnswer> answered(Trainer trainer)
    {
        if (best_.timeline) {
            best_.plan.status = PlanStatus::optimal;
            best_.plan.recomputeMs = best_.plan.boundMs = best_.timeline->recomputeMs;
            ASSIGN_OR_RETURN(best_.effects, ModuleEffects(model_).of(best_.regions));
        }
        PlanAnswer answer = answerTo(request_, model_, std::move(best_));
        if (!answer.fits())
            answer.plan.reason = "no option of "
                + std::string(trainer == Trainer::torchtitan ? "torchtitan" : "Hugging Face's Trainer") + " fits "
                + formatBytes(answer.plan.budget) + ": the step takes " + formatBytes(answer.plan.leastBudget) + " ("
                + groupedDigits(answer.plan.leastBudget)
                + " B) with the leanest; torch-headroom plan without --trainer may find more";
        return answer;
    }

    const StepModel model_;
    const StepTrace& trace_;
    const PlanRequest& request_;
    PlanAnswer best_;
};

} // namespace

Result<PlanAnswer> planForTrainer(const StepTracePtr& trace, Trainer trainer, const PlanRequest& request)
{
    return TrainerPlanner(trace, request).plan(trainer);
}

} // namespace headroom
