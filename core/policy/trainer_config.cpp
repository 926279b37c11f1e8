// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/policy/trainer_config.h"

#include <algorithm>
#include <map>
#include <set>

namespace headroom {

namespace {

/// A sequence of like modules, as a ModuleList of transformer layers, and what the policy does to each.
struct Blocks
{
    std::string list; ///< fqn of the module that holds them
    std::string type;
    std::vector<const Policy::Module*> policies; ///< in the order of the blocks; null: not checkpointed
};

Error cannot(std::string_view trainer, std::string why)
{
    return badInput(std::string(trainer) + " cannot express this plan: " + std::move(why)
                    + "; headroom.apply() applies any policy");
}

std::string parentOf(std::string_view fqn)
{
    const std::size_t dot = fqn.rfind('.');
    return std::string(dot == std::string_view::npos ? std::string_view() : fqn.substr(0, dot));
}

/// The blocks that a policy speaks of. It has to name at least one module.
Result<Blocks> findBlocks(const StepTrace& trace, const Policy& policy, std::string_view trainer)
{
    Blocks blocks;
    blocks.list = parentOf(policy.modules.front().fqn);
    std::map<std::string_view, const Policy::Module*> chosen;
    for (const Policy::Module& module : policy.modules) {
        if (parentOf(module.fqn) != blocks.list)
            return cannot(trainer,
                          "it checkpoints " + policy.modules.front().fqn + " and " + module.fqn
                              + ", which are not blocks of one list");
        chosen.emplace(module.fqn, &module);
    }
    bool alike = true;
    for (std::uint32_t i = 0; i < trace.modules.size(); ++i) {
        const ModuleId module(i);
        const std::string_view fqn = trace.moduleFqn(module);
        if (parentOf(fqn) != blocks.list)
            continue;
        const std::string_view type = trace.strings[trace.modules.type[module]];
        if (blocks.type.empty())
            blocks.type = type;
        alike = alike && type == blocks.type;
        const auto found = chosen.find(fqn);
        blocks.policies.push_back(found != chosen.end() ? found->second : nullptr);
    }
    if (!alike || blocks.policies.size() < 2)
        return cannot(trainer,
                      "it checkpoints " + policy.modules.front().fqn + ", which is no block of a list of like ones");
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

/// torchtitan counts blocks from 1 and checkpoints those that n divides; 0: the policy checkpoints others.
std::size_t frequency(const Blocks& blocks)
{
    const auto first = std::ranges::find_if(blocks.policies, [](const auto* module) { return module != nullptr; });
    const std::size_t n = static_cast<std::size_t>(first - blocks.policies.begin()) + 1;
    for (std::size_t i = 0; i < blocks.policies.size(); ++i)
        if ((blocks.policies[i] != nullptr) != ((i + 1) % n == 0))
            return 0;
    return n;
}

/// The ops of which every call in every block is kept, when no other call is.
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
            return cannot("torchtitan", "it keeps ops in some blocks of " + blocks.list + " and leaves others alone");
        for (const Policy::Op& op : module->ops)
            (op.save ? ops[op.op].keeps : ops[op.op].drops) = module;
    }
    std::set<std::string> saved;
    for (const auto& [op, calls] : ops) {
        if (calls.keeps != nullptr && calls.drops != nullptr)
            return cannot("torchtitan",
                          "it keeps " + op + " in " + calls.keeps->fqn + " but not everywhere, and torchtitan keeps "
                              + "all calls of an op or none");
        if (calls.keeps != nullptr)
            saved.insert(op);
    }
    return saved;
}

Result<std::string> torchtitan(const StepTrace& trace, const Policy& policy)
{
    const std::string section = "[activation_checkpoint]\n";
    if (policy.modules.empty())
        return section + "mode = \"none\"\n";
    const Result<Blocks> blocks = findBlocks(trace, policy, "torchtitan");
    if (!blocks)
        return blocks.error();
    const std::string layers = std::string(trace.moduleFqn(ModuleId(0))) + ".layers";
    if (blocks->list != layers)
        return cannot("torchtitan",
                      "it checkpoints blocks of " + blocks->list + ", and torchtitan only those of " + layers);
    if (allWhole(*blocks)) {
        const std::size_t n = frequency(*blocks);
        if (n == 1)
            return section + "mode = \"full\"\n";
        if (n == 0)
            return cannot("torchtitan", "it checkpoints neither all blocks of " + layers + " nor every n-th");
        return section + "mode = \"selective\"\nselective_ac_option = \"" + std::to_string(n) + "\"\n";
    }
    const Result<std::set<std::string>> saved = savedOps(*blocks);
    if (!saved)
        return saved.error();
    std::string config = section
        + "mode = \"selective\"\nselective_ac_option = \"op\"\n\n"
          "# The ops to save, as a set in the model's parallelize.py that goes to apply_ac():\n# {\n";
    for (const std::string& op : *saved)
        config += "#     torch.ops." + op + ",\n";
    return config + "# }\n";
}

Result<std::string> huggingFace(const StepTrace& trace, const Policy& policy)
{
    if (policy.modules.empty())
        return std::string("TrainingArguments(gradient_checkpointing=False)\n");
    const Result<Blocks> blocks = findBlocks(trace, policy, "Hugging Face's Trainer");
    if (!blocks)
        return blocks.error();
    if (!allWhole(*blocks))
        return cannot("Hugging Face's Trainer",
                      "it keeps ops inside of blocks, and the Trainer recomputes all of them");
    if (frequency(*blocks) != 1)
        return cannot("Hugging Face's Trainer",
                      "it checkpoints " + std::to_string(policy.modules.size()) + " of "
                          + std::to_string(blocks->policies.size()) + " blocks, and the Trainer all or none");
    return std::string("TrainingArguments(gradient_checkpointing=True, "
                       "gradient_checkpointing_kwargs={\"use_reentrant\": False})\n");
}

} // namespace

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

} // namespace headroom
