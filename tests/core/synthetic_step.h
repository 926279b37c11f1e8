// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/trace/step_trace.h"

#include <cstddef>

namespace headroom {

/// The size of a made-up training step.
struct SyntheticOptions
{
    int blocks = 4; ///< Transformer.layers.N with attention, feed_forward and two norms
    int elementwise = 2; ///< GELUs one after another in each feed_forward; each saves its input
    Bytes activation = 4 * MiB; ///< of one hidden state
    Bytes weight = 1 * MiB; ///< of one weight matrix
    int kinds = 1; ///< of blocks, in turn: those of a later kind have a wider feed_forward
    Bytes adapter = 0; ///< of the hidden state of a low-rank adapter beside each linear of a block; 0: none
    bool backwardInAutocast = false; ///< with adapters: autocast has its casts of weights until backward is over
    int microBatches = 1; ///< whose gradients one step adds up
    bool oneOfTwo = false; ///< the program has another model, Critic, and the step a root that holds both
};

/// About `events` events in `blocks` blocks.
SyntheticOptions syntheticOptions(std::size_t events, int blocks = 96);

/// One training step of a transformer that exists only here: forward with packs, loss, backward with unpacks, releases
/// and the modules' backward marks, Adam with its states, zero_grad. The order of its events is PyTorch's, its program
/// lifetimes are those of Python locals; views, an in-place op, a random op and an op that selective checkpointing
/// ignores are in it. For tests and benchmarks that need a step but no libtorch.
///
/// With adapters (LoRA, as PEFT writes it) only they are trained: each wq, wo, w1 and w2 has a .base_layer, whose
/// result a dropout, .lora_A and .lora_B add to.
///
/// Modules: Transformer, .tok_embeddings, .layers (a ModuleList), .layers.N, .layers.N.attention_norm, .attention,
/// .attention.wq, .attention.wo, .ffn_norm, .feed_forward, .feed_forward.w1, .feed_forward.w2, and .output.
StepTracePtr makeSyntheticStep(const SyntheticOptions& options = {});

} // namespace headroom
