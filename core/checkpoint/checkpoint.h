// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/checkpoint/selective_cache.h"
#include "core/record/interceptor.h"
#include "core/record/module_call.h"
#include "core/record/saved_tensor_hooks.h"

#include <memory>
#include <optional>

namespace headroom {

class CheckpointFrame;

/// How a region is checkpointed. The names are those of torch.utils.checkpoint's arguments.
struct CheckpointOptions
{
    bool preserveRngState = true; ///< random numbers are drawn again as they were
    bool earlyStop = true; ///< recompute no further than the last tensor that backward needs
    bool determinismCheck = true; ///< compare shape, dtype and device of what was recomputed
    SavePolicy save; ///< which ops keep their results; empty: none
    CountedOps counted = CountedOps::all; ///< which ops `save` is asked for and numbers
};

/// A region of a program whose tensors are not saved for backward but computed again when backward asks for the first
/// of them: torch.utils.checkpoint with use_reentrant=False. The region is what runs in this thread from construction
/// to complete(); `recompute` runs it again, from `inputs`, at most once in each backward pass.
///
/// - Tensors among `inputs` are saved as autograd saves tensors, so that checkpoints may be nested; everything else,
///   lists of tensors included, is kept as it is.
/// - Without gradients (GradMode off) nothing happens.
/// - When an exception leaves the region, this object's end leaves nothing behind.
///
/// Throws CheckpointError, also from backward: one sentence.
class CheckpointScope
{
public:
    CheckpointScope(RegionFunction recompute, const Values& inputs, const CheckpointOptions& options);
    ~CheckpointScope();
    CheckpointScope(const CheckpointScope&) = delete;
    CheckpointScope& operator=(const CheckpointScope&) = delete;

    /// The region has run to its end.
    void complete();

    /// Number of tensors that the region has saved for backward so far.
    std::size_t savedTensors() const;
    /// How often each op ran so far; empty when all is recomputed.
    OpCounts opCounts() const;

private:
    std::shared_ptr<CheckpointFrame> frame_; ///< null without gradients
    std::optional<CachingOps> caching_;
    std::optional<InterpositionScope> interposition_;
    std::optional<SavedTensorHooksScope> hooks_;
};

/// Runs `function` as a checkpointed region.
Values checkpoint(const RegionFunction& function, const Values& inputs, const CheckpointOptions& options = {});

} // namespace headroom
