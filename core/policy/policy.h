// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/plan/plan.h"
#include "core/predict/predict.h"
#include "core/trace/step_trace.h"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace headroom {

/// The modules to checkpoint and the ops to save in each, as training applies them: policy.json, version 1
/// (resources/manual/formats.md).
struct Policy
{
    struct Op
    {
        std::string op; ///< "aten.mm.default"
        int index = 0; ///< number of the call of that op inside the module's forward, from 0
        bool save = false;
    };
    struct Module
    {
        std::string fqn; ///< name by policyFqn()
        double discardRatio = 0; ///< the module's value in Plan::decisions
        std::vector<Op> ops; ///< ops in the order in which they run
        std::vector<std::string> types = {}; ///< class names from the model to the module; empty: not known
        /// Predicted bytes by call of the module. In the file they are in `predicted.held_bytes` under the module's
        /// name, as the lists `begin`, `end` and `recompute` with one number for each call. Empty: not predicted, as
        /// with several ranks, whose communication buffers are unknown.
        std::vector<HeldBytes> held = {};
    };
    /// How training runs under the policy on the card that the plan was made for.
    struct OnCard
    {
        std::string name; ///< of the GPU; empty: a size
        Bytes capacity = 0; ///< bytes that the caching allocator may reserve
        bool runs = false;
        Bytes reservedPeak = 0;
        Bytes left = 0;
        Bytes leastCapacity = 0; ///< the least with which it runs; 0: not known
        std::vector<std::string> assumptions; ///< what that rests on, a sentence each without an end

        friend bool operator==(const OnCard&, const OnCard&) = default;
    };
    std::string model;
    std::string torch;
    Bytes budget = 0;
    int worldSize = 1;
    struct
    {
        Bytes peak = 0;
        double recomputeMs = 0;
        double gap = 0;
    } predicted;
    std::vector<Module> modules;
    std::vector<std::string> objects; ///< names of the models in the step, if there are several
    /// Those of `objects` that save tensors for backward, too, and of which the plan checkpoints nothing.
    std::vector<std::string> objectsLeft = {};
    /// Names of the modules whose forward reads the card's memory, which is another one under a plan.
    std::vector<std::string> memoryReaders = {};
    /// The value of PYTORCH_CUDA_ALLOC_CONF for which a card's plan was made; empty: the recorded program's.
    std::string allocatorSettings = {};
    std::optional<OnCard> card = {}; ///< nullopt: the plan was made for a budget
};

/// Makes the policy of a plan that has discard ratios only: in each module it selects the ops to save by opPolicy(),
/// which keeps at most 1 - discard ratio of the module's memory.
Result<Policy> makePolicy(const StepTrace& trace, const Plan& plan);

/// A module's name in policies, which begins with the class name of the user's model. The trace of a step with several
/// models has them under a root `models`, which the name leaves out.
std::string_view policyFqn(const StepTrace& trace, ModuleId module);

/// The policy as regions of this step. Errors: an unknown module, an op that never ran there, another number of ops.
Result<CheckpointPlan> checkpointPlan(const StepTrace& trace, const Policy& policy);

/// The text of policy.json: keys sorted and one op per line, so that versions can be compared with diff.
std::string toJson(const Policy& policy);
Result<Policy> readPolicy(const std::filesystem::path& path); ///< errors: a newer version, a wrong value and its place
Status writePolicy(const Policy& policy, const std::filesystem::path& path); ///< writes an AtomicFile

} // namespace headroom
