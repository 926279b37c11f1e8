// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/checkpoint/ambient_state.h"
#include "core/checkpoint/selective_cache.h"
#include "core/record/node_table.h"
#include "core/record/interceptor.h"
#include "core/record/module_call.h"
#include "core/record/saved_tensor_hooks.h"

#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace headroom {

class CheckpointFrame;

/// How a region is checkpointed.
struct CheckpointOptions
{
    SavePolicy save; ///< which ops keep their results; empty: none
    CountedOps counted = CountedOps::all; ///< the ops that are numbered and for which `save` is called
};

/// A checkpointed region, as of torch.utils.checkpoint with use_reentrant=False and the other defaults. The region's
/// tensors are not saved for backward but recomputed when backward unpacks the first tensor. The recomputation draws
/// the same random numbers, ends with the last tensor that backward needs, and compares shapes, dtypes and devices. The
/// region is the code that runs in this thread from construction to complete(). `recompute` runs the region again from
/// `inputs`, at most once in each backward pass.
///
/// - Tensors among `inputs` are saved through autograd, so that checkpoints may be nested. Other inputs, and lists of
///   tensors, are kept unchanged.
/// - With GradMode off, nothing happens.
/// - If an exception leaves the region, the destructor undoes everything.
///
/// Throws CheckpointError, with a sentence as message; backward may throw CheckpointError too.
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

/// A run of a checkpointed region. Lives as long as autograd holds a tensor that the region saved. Holds the inputs of
/// the recomputation, and each recomputed tensor until backward has used the tensor. Autograd's threads call the frame.
class CheckpointFrame : public std::enable_shared_from_this<CheckpointFrame>
{
public:
    CheckpointFrame(RegionFunction function, const Values& inputs, const CheckpointOptions& options);

    const std::shared_ptr<SelectiveCache>& cache() const { return cache_; }
    std::size_t savedTensors() const { return slots_.size(); }

    /// Creates the hooks of a tensor that the region saves in forward. The hooks share the ownership of the frame.
    std::unique_ptr<torch::autograd::SavedVariableHooks> saveInForward();

private:
    class ForwardSave;
    class RecomputeSave;

    struct Metadata
    {
        std::vector<std::int64_t> sizes;
        at::ScalarType dtype = at::kFloat;
        at::Device device = at::kCPU;
        bool operator==(const Metadata&) const = default;
    };
    static Metadata metadataOf(const at::Tensor& tensor);
    static std::string textOf(const Metadata& metadata);

    /// A saved tensor. Lives as long as autograd's saved variable.
    struct Slot
    {
        Metadata metadata;
        std::map<int, at::Tensor> recomputed; ///< by backward pass; undefined: already used
    };
    /// The state of the recomputation in a backward pass.
    struct Pass
    {
        std::size_t packed = 0; ///< number of tensors that the recomputation has saved
        bool recomputed = false;
    };

    std::shared_ptr<Slot> addSlot(const at::Tensor& tensor);
    at::Tensor unpack(Slot& slot);
    void recompute(int pass);
    /// Stores a tensor that the recomputation saves. Throws StopRecomputation after the last needed tensor.
    void recomputed(int pass, const at::Tensor& tensor);
    void checkSame(int pass) const;
    Values inputs() const;

    struct Input
    {
        c10::IValue value; ///< an input that is not a tensor
        torch::autograd::SavedVariable saved;
        NodePtr node; ///< what made the tensor, before the region
        c10::VariableVersion version; ///< the tensor's version counter
        std::uint32_t versionThen = 0; ///< version at the start of the region
        bool isTensor = false;
    };

    RegionFunction function_;
    CheckpointOptions options_;
    AmbientState ambient_;
    std::vector<Input> inputs_;
    std::shared_ptr<SelectiveCache> cache_;
    std::vector<std::weak_ptr<Slot>> slots_; ///< in the order of saving
    std::recursive_mutex mutex_; ///< recursive, as a recomputation may run backward itself
    std::map<int, Pass> passes_;
};

} // namespace headroom
