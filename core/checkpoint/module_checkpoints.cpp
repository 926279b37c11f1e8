// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/checkpoint/module_checkpoints.h"

#include "core/base/try.h"

#include <utility>

namespace headroom {
namespace {

using Decisions = std::map<std::string, std::vector<bool>, std::less<>>;

std::string callsText(std::size_t count)
{
    return std::to_string(count) + (count == 1 ? " call" : " calls");
}

/// Returns the decisions on a module's ops by op and index. Errors: an index is there twice or missing.
Result<std::shared_ptr<const Decisions>> decisionsOf(const Policy::Module& module)
{
    std::map<std::string, std::map<int, bool>> given;
    for (const Policy::Op& op : module.ops)
        if (!given[op.op].emplace(op.index, op.save).second)
            return badInput("policy of module `" + module.fqn + "`: op `" + op.op + "` with index "
                            + std::to_string(op.index) + " is there twice");
    auto decisions = std::make_shared<Decisions>();
    for (const auto& [op, saves] : given) {
        std::vector<bool>& list = (*decisions)[op];
        for (const auto& [index, save] : saves) {
            if (index != static_cast<int>(list.size()))
                return badInput("policy of module `" + module.fqn + "`: op `" + op + "` lacks index "
                                + std::to_string(list.size()) + "; a policy decides on every call");
            list.push_back(save);
        }
    }
    return std::shared_ptr<const Decisions>(std::move(decisions));
}

/// Throws CheckpointError if a call of a module ran other ops than the policy's.
void compareCounts(const std::string& fqn, const Decisions& decisions, const OpCounts& ran)
{
    const auto differ = [&](const std::string& op, std::size_t inPolicy, std::size_t inStep) {
        throw CheckpointError("policy of module `" + fqn + "`: op `" + op + "`: the policy has " + callsText(inPolicy)
                              + ", the step " + std::to_string(inStep)
                              + "; plan again for this model with these shapes");
    };
    for (const auto& [op, saves] : decisions) {
        const auto found = ran.find(op);
        const std::size_t count = found == ran.end() ? 0 : static_cast<std::size_t>(found->second);
        if (count != saves.size())
            differ(op, saves.size(), count);
    }
    for (const auto& [op, count] : ran)
        if (!decisions.contains(op))
            differ(op, 0, static_cast<std::size_t>(count));
}

} // namespace

class ModuleCheckpoints::Call final : public ModuleCallHandler::Open
{
public:
    Call(Region& region, Match match, RegionFunction forward, const Values& arguments, const CheckpointOptions& options)
        : region_(region)
        , match_(match)
        , scope_(std::move(forward), arguments, options)
    {
    }
    void complete() override
    {
        scope_.complete();
        ++region_.calls;
        if (match_ == Match::byName || !region_.save || region_.checked || scope_.savedTensors() == 0)
            return;
        region_.checked = true;
        compareCounts(region_.fqn, *region_.save, scope_.opCounts());
    }

private:
    Region& region_;
    Match match_;
    CheckpointScope scope_;
};

Result<std::shared_ptr<ModuleCheckpoints>> ModuleCheckpoints::create(const ModelTree& tree, const Policy& policy,
                                                                     Match match)
{
    std::unordered_map<std::string_view, std::uint32_t> ids;
    for (std::size_t id = 0; id < tree.modules.size(); ++id)
        ids.emplace(tree.modules[id].fqn, static_cast<std::uint32_t>(id));
    auto checkpoints = std::make_shared<ModuleCheckpoints>();
    checkpoints->match_ = match;
    for (const Policy::Module& module : policy.modules) {
        const auto id = ids.find(module.fqn);
        if (id == ids.end())
            return badInput("the policy names module `" + module.fqn + "`: the model has no such module");
        if (module.offload || module.hosted)
            return badInput(
                "the policy offloads tensors of module `" + module.fqn
                + "`, and only training in Python offloads: record the script with `python -m torch_headroom.record "
                  "--policy`, and compare with torch-headroom verify STEP --executed EXECUTED");
        Region region{module.fqn, nullptr, 0, false};
        if (!module.ops.empty()) {
            ASSIGN_OR_RETURN(region.save, decisionsOf(module));
        }
        if (!checkpoints->regions_.emplace(id->second, std::move(region)).second)
            return badInput("the policy names module `" + module.fqn + "` twice");
    }
    return checkpoints;
}

std::unique_ptr<ModuleCallHandler::Open> ModuleCheckpoints::open(ModuleId module, Values arguments,
                                                                 RegionFunction forward)
{
    Region& region = regions_.at(module.value);
    CheckpointOptions options;
    if (match_ == Match::exact)
        options.counted = CountedOps::ofDevices;
    if (region.save) {
        options.save = [decisions = region.save](std::string_view op, int index) {
            const auto found = decisions->find(op);
            return found != decisions->end() && static_cast<std::size_t>(index) < found->second.size()
                && found->second[static_cast<std::size_t>(index)];
        };
    }
    return std::make_unique<Call>(region, match_, std::move(forward), arguments, options);
}

Status ModuleCheckpoints::allRan() const
{
    for (const auto& [id, region] : regions_)
        if (region.calls == 0)
            return badInput("the policy checkpoints module `" + region.fqn + "`, but the module ran no op in the step");
    return {};
}

} // namespace headroom
