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

/// The modules to checkpoint and the ops to save in each module, and the modules to offload, as training applies them:
/// policy.json, version 1 (resources/manual/formats.md).
struct Policy
{
    struct Op
    {
        std::string op; ///< "aten.mm.default"
        int index = 0; ///< number of the call of that op inside the module's forward, from 0
        bool save = false;
        bool offload = false; ///< the saved outputs go to host memory
    };
    /// What an offloaded module moves to host memory, and when (core/predict/predict.h, Offload).
    struct Moves
    {
        int wait = 0;
        int ahead = 0;
        /// Saved tensors that move: numbers from 0 in the order of the module's forward. Empty: the module only counts.
        std::vector<int> tensors;
        int saved = 0; ///< number of tensors that autograd saves in a forward of the module
        int prefetch = Offload::all;
        int afterUnpacks = 0;

        friend bool operator==(const Moves&, const Moves&) = default;
    };
    struct Module
    {
        std::string fqn; ///< name by policyFqn()
        double discardRatio = 0; ///< the module's value in Plan::decisions
        std::vector<Op> ops; ///< ops in the order of execution
        std::vector<std::string> types = {}; ///< class names from the model to the module; empty: not known
        /// Predicted bytes by call of the module. The file has the bytes in `predicted.held_bytes` under the module's
        /// name, as the lists `begin`, `end` and `recompute` with a number for each call. Empty: not predicted, as with
        /// several ranks, since the communication buffers are unknown.
        std::vector<HeldBytes> held = {};
        std::optional<Moves> offload = {}; ///< nullopt: the module is checkpointed
        /// When arguments, and the outputs of the ops with `offload`, move, of a checkpointed module; nullopt: nothing
        /// moves.
        std::optional<Offload> hosted = {};
        /// Arguments that move: numbers from 0 among the different storages on the device that are arguments.
        std::vector<int> arguments = {};
    };
    /// How training runs under the policy on the card that the plan was made for.
    struct OnCard
    {
        std::string name; ///< of the GPU; empty: a size
        Bytes capacity = 0; ///< bytes that the caching allocator may reserve
        bool runs = false;
        Bytes reservedPeak = 0;
        Bytes left = 0;
        Bytes leastCapacity = 0; ///< the least capacity for training; 0: not known
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
    /// The members of `objects` that save tensors for backward, too, but that the plan does not checkpoint.
    std::vector<std::string> objectsLeft = {};
    /// Names of the modules that read the card's memory in forward, since a plan changes that memory.
    std::vector<std::string> memoryReaders = {};
    /// The value of PYTORCH_CUDA_ALLOC_CONF that a card's plan was made for; empty: the recorded program's.
    std::string allocatorSettings = {};
    std::optional<OnCard> card = {}; ///< nullopt: the plan was made for a budget
};

/// Makes the policy of a plan that has discard ratios only: in each module, opPolicy() selects the ops to save, and
/// keeps at most 1 - discard ratio of the module's memory. Error: as PolicyMaker::regions().
Result<Policy> makePolicy(const StepTrace& trace, const Plan& plan);

/// A module's name in policies: the name begins with the class name of the user's model. The trace of a step with
/// several models has a root `models` around the models; the name leaves out this root.
std::string_view policyFqn(const StepTrace& trace, ModuleId module);

/// The policy as regions of this step. Error (badInput): an unknown module, an op that never ran there or is there
/// twice, an op that cannot be saved or offloaded, another number of ops; the sentence names the module and the op.
Result<CheckpointPlan> checkpointPlan(const StepTrace& trace, const Policy& policy);

/// The text of policy.json: keys sorted and an op per line, so that versions can be compared with diff.
std::string toJson(const Policy& policy);
/// Reads policy.json. Error: a newer version, or a wrong value; the sentence names the file and the place.
Result<Policy> readPolicy(const std::filesystem::path& path);
/// Writes policy.json as an AtomicFile. Error: the file cannot be written.
Status writePolicy(const Policy& policy, const std::filesystem::path& path);

} // namespace headroom
