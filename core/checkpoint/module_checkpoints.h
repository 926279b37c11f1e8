// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"
#include "core/checkpoint/checkpoint.h"
#include "core/policy/policy.h"
#include "core/record/module_call.h"

#include <memory>
#include <unordered_map>

namespace headroom {

/// Checkpoints the modules of a policy, and saves the ops that the policy saves. Install the object with
/// ModuleCallScope or StepRunner::Options; the object must outlive all runs of the model.
class ModuleCheckpoints final : public ModuleCallHandler
{
public:
    /// How exactly the model has to match a policy.
    enum class Match {
        exact, ///< throws CheckpointError unless each op runs as often as the policy says
        byName, ///< recomputes ops that the policy does not name: the model may run on another device
    };
    /// Creates the handler. Errors: a module that the model does not have, a module twice, an op twice.
    static Result<std::shared_ptr<ModuleCheckpoints>> create(const ModelTree& tree, const Policy& policy, Match match);

    bool handles(ModuleId module) const override { return regions_.contains(module.value); }
    std::unique_ptr<Open> open(ModuleId module, Values arguments, RegionFunction forward) override;

    /// Returns an error if a module of the policy never ran; call allRan() after a step.
    Status allRan() const;

private:
    struct Region
    {
        std::string fqn;
        std::shared_ptr<const std::map<std::string, std::vector<bool>, std::less<>>> save; ///< by op and index, or null
        int calls = 0;
        bool checked = false; ///< the ops of a call with saved tensors were compared with the policy
    };
    class Call;

    std::unordered_map<std::uint32_t, Region> regions_; ///< by ModuleId
    Match match_ = Match::exact;
};

} // namespace headroom
