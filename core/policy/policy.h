// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/plan/plan.h"
#include "core/predict/predict.h"
#include "core/trace/step_trace.h"

#include <filesystem>
#include <string>
#include <vector>

namespace headroom {

/// What PyTorch training applies: policy.json, version 1 (resources/manual/formats.md).
struct Policy
{
    struct Op
    {
        std::string op; ///< "aten.mm.default"
        int index = 0; ///< which call of that op inside the module's forward
        bool save = false;
    };
    struct Module
    {
        std::string fqn; ///< as policyFqn() gives it
        double discardRatio = 0; ///< as Plan::decisions
        std::vector<Op> ops; ///< in the order in which they run
        std::vector<std::string> types = {}; ///< class names from the model to the module; empty: not known
        /// Predicted, by call of the step. In the file it is `held_bytes` of `predicted`, by the module's name: the
        /// lists `begin`, `end` and `recompute`, each with a number for each call. Empty: not known, as with several
        /// ranks, of whose communication nothing is predicted.
        std::vector<HeldBytes> held = {};
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
    std::vector<std::string> objects; ///< names of the models in the step, where there were several
};

/// Turns a plan into ops to save in each chosen module: the op policy (GLPK) that keeps 1 - discard ratio of its
/// memory.
Result<Policy> makePolicy(const StepTrace& trace, const Plan& plan);

/// A module's name in policies: from the model that the user's program has, by the name of its class. A step with
/// several models keeps them under a root of its own, `models`.
std::string_view policyFqn(const StepTrace& trace, ModuleId module);

/// The regions that a policy means in this step. Errors: unknown module, an op that never ran there, counts that
/// differ.
Result<CheckpointPlan> checkpointPlan(const StepTrace& trace, const Policy& policy);

/// Diffable: keys sorted, one op a line.
std::string toJson(const Policy& policy);
Result<Policy> readPolicy(const std::filesystem::path& path); ///< refuses a newer version and names what is wrong
Status writePolicy(const Policy& policy, const std::filesystem::path& path); ///< atomic

} // namespace headroom
