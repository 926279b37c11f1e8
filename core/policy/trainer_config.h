// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/policy/policy.h"

#include <string>
#include <string_view>

namespace headroom {

/// A trainer that checkpoints by options of its own, so that a plan can be used there without the Python package.
enum class Trainer {
    torchtitan, ///< 0.2's [activation_checkpoint]: all blocks of `layers`, every n-th, or chosen ops of all
    huggingFace, ///< transformers.TrainingArguments: all layers, every n-th or none, each as a whole
};
Result<Trainer> parseTrainer(std::string_view name); ///< "torchtitan", "huggingface"

/// The policy as configuration of a trainer, to be pasted. Says exactly what the policy says: a policy that a trainer's
/// options cannot express is refused (badInput) with the sentence why; torch_headroom.apply() can always apply it.
Result<std::string> trainerConfig(const StepTrace& trace, const Policy& policy, Trainer trainer);

} // namespace headroom
