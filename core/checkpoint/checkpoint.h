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

/// How a region is checkpointed.
struct CheckpointOptions
{
    SavePolicy save; ///< which ops keep their results; empty: none
    CountedOps counted = CountedOps::all; ///< the ops that are numbered and for which `save` is called
};

/// A checkpointed region, as of torch.utils.checkpoint with use_reentrant=False and its defaults. Its tensors are not
/// saved for backward but recomputed when backward unpacks the first of them. The recomputation draws the same random
/// numbers, ends with the last tensor that backward needs, and compares shapes, dtypes and devices. The region is the
/// code that runs in this thread from construction to complete(). `recompute` runs it again from `inputs`, at most once
/// in each backward pass.
///
/// - Tensors among `inputs` are saved through autograd, so that checkpoints may be nested. Other inputs, and lists of
///   tensors, are kept as they are.
/// - With GradMode off, nothing happens.
/// - If an exception leaves the region, the destructor undoes everything.
///
/// Throws CheckpointError, with a message of one sentence; backward may throw it too.
class CheckpointScope
{
public:
    CheckpointScope(RegionFunction recompute, const Values& inputs, const CheckpointOptions& options);
    ~CheckpointScope();
    CheckpointScope(const CheckpointScope&) = delete;
    CheckpointScope& operator=(const CheckpointScope&) = delete;

    /// Ends the region. Call this after the region has run without an exception.
    void complete();

    /// Returns the number of tensors that the region has saved for backward so far.
    std::size_t savedTensors() const;
    /// Returns how often each op ran so far; empty if no op is saved.
    OpCounts opCounts() const;

private:
    std::shared_ptr<CheckpointFrame> frame_; ///< null with GradMode off
    std::optional<CachingOps> caching_;
    std::optional<InterpositionScope> interposition_;
    std::optional<SavedTensorHooksScope> hooks_;
};

} // namespace headroom
