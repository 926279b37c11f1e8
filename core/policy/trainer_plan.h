// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/policy/policy.h"
#include "core/policy/step_planner.h"

#include <string>
#include <string_view>

namespace headroom {

/// A trainer with checkpointing options of its own, which can express some plans without the Python package.
enum class Trainer {
    torchtitan, ///< 0.2's [activation_checkpoint]: all blocks of `layers`, every n-th, or chosen ops of all
    huggingFace, ///< transformers.TrainingArguments: all layers, every n-th or none, each as a whole
};
/// "torchtitan", "huggingface". Error (badInput): another name.
Result<Trainer> parseTrainer(std::string_view name);

/// Whether transformers takes the module for a layer: it is in a ModuleList that is in no other ModuleList.
bool isTransformersLayer(const StepTrace& trace, ModuleId module);

/// The policy as text for the trainer's configuration, with exactly the same meaning. Error (badInput): the trainer's
/// options cannot express the policy, and why; torch_headroom.apply() can apply every policy.
Result<std::string> trainerConfig(const StepTrace& trace, const Policy& policy, Trainer trainer);

/// The plan of least recomputation within a budget of device memory among those that the trainer's own options can
/// express; each is predicted on the step. Only the request's budget and world size are used. Infeasible if none fits.
/// Errors: a step without the layers that the trainer checkpoints.
///
/// For torchtitan's lists of ops to save, the ops that take longest to recompute are tried, without random ops.
Result<PlanAnswer> planForTrainer(const StepTracePtr& trace, Trainer trainer, const PlanRequest& request);

} // namespace headroom
