// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/checkpoint/ambient_state.h"
#include "core/device/hosted_memory.h"
#include "core/joint/joint_graph.h"
#include "core/joint/ops_request.h"
#include "core/record/interceptor.h"
#include "core/record/op_facts.h"
#include "core/record/saved_tensor_hooks.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

namespace headroom {

/// While the object lives, ops of this thread are bookkeeping: not recorded, differentiated or counted.
class Unseen
{
public:
    Unseen();

private:
    at::AutoDispatchBelowADInplaceOrView below_;
    c10::impl::ExcludeDispatchKeyGuard interception_;
    sim::HostedMemory::Uncounted uncounted_;
};

/// A call of an op that can be recomputed: the arguments, and the generator's state. Of tensors that the step
/// made, only the shapes are kept. Other tensors are held: parameters, buffers and inputs, which the program holds
/// anyway, and copies of numbers.
class RepeatedCall
{
public:
    /// Returns the value of a tensor that the step made; invalid for any other tensor.
    using ValueOf = std::function<ValueId(const at::Tensor& tensor)>;
    using StorageOf = std::function<c10::Storage(ValueId value)>;

    /// `facts` are the op's facts and must outlive this object.
    RepeatedCall(const c10::OperatorHandle& op, const OpFacts& facts, const torch::jit::Stack& stack, bool random,
                 const ValueOf& valueOf);

    /// Runs the call again below autograd and returns its results. Changes of held tensors (running statistics) are
    /// undone afterwards. Adds the call's flops to `flops`. Throws CheckpointError if an argument was changed since the
    /// first call.
    torch::jit::Stack runAgain(const StorageOf& storageOf, double& flops) const;

private:
    struct Argument
    {
        ValueId value; ///< invalid: the tensor is held
        std::uint32_t version = 0; ///< version of a held tensor, checked unless the op writes to it
        bool changes = false; ///< the op writes to the tensor
    };

    c10::OperatorHandle op_;
    const OpFacts& facts_;
    torch::jit::Stack stack_;
    std::vector<Argument> tensors_; ///< in the order of the stack
    std::optional<AmbientState> ambient_;
};

/// Measurements of a step that followed a plan.
struct OpsExecuted
{
    Bytes savedBytes = 0; ///< held for backward at the end of forward, each storage once, rounded to blocks
    double recomputeFlops = 0; ///< flops of the repeated ops, by actual shapes
    std::size_t repeatedOps = 0;
};

/// Runs one step by a plan for its ops (OpsPlan). Each op is compared with the trace of the planned step; the first
/// difference throws CheckpointError. An op to be recomputed is kept as a call with the shapes of tensors;
/// storages are held only if the plan says so. Autograd's hooks share the ownership of this object, and autograd's
/// threads call the object.
class OpsExecution final : public OpInterposer, public std::enable_shared_from_this<OpsExecution>
{
public:
    OpsExecution(std::shared_ptr<const JointGraph> graph, OpsPlan plan);

    void call(const c10::OperatorHandle& op, torch::jit::Stack& stack, c10::function_ref<void()> run) override;
    /// Creates the hooks of a tensor that autograd saves.
    std::unique_ptr<torch::autograd::SavedVariableHooks> save();

    OpsExecuted executed() const;
    /// Returns an error if the step had fewer ops than the plan, or did not repeat all planned ops. Call complete()
    /// after the step.
    Status complete() const;

private:
    class Save;

    /// A value that forward made, and the remaining uses by recomputations.
    struct Made
    {
        c10::weak_intrusive_ptr<c10::StorageImpl> original{c10::intrusive_ptr<c10::StorageImpl>()};
        c10::Storage held; ///< the recomputed copy, or the saved storage if a recomputation reads the storage
        std::uint32_t readers = 0; ///< number of nodes that will read the value again
        std::uint32_t unpacks = 0; ///< number of unpacks that will need a recomputed value
    };

    bool inForward() const;
    ValueId valueOf(const at::Tensor& tensor) const;
    ValueId valueOf(PackId pack) const;
    bool dropped(ValueId value) const;
    RepeatedCall remember(OpId op, const c10::OperatorHandle& handle, const torch::jit::Stack& stack) const;
    std::string otherSizes(OpId op) const;
    void hasRun(OpId op, const OpFacts& facts, const torch::jit::Stack& stack);
    void holdForReaders(OpId op);
    OpFacts& factsOf(const c10::OperatorHandle& op);

    PackId pack(const at::Tensor& tensor);
    at::Tensor unpack(PackId pack, const at::Tensor& shape);
    void runAgain(OpId op);
    void takeResults(OpId op, const torch::jit::Stack& results);
    c10::Storage storageOf(OpId reader, ValueId value) const;
    void used(ValueId value, std::uint32_t Made::*use);
    void measureSaved();

    const std::shared_ptr<const JointGraph> graph_;
    const StepTrace& trace_;
    const OpsPlan plan_;
    std::vector<bool> saved_; ///< by value
    std::vector<bool> repeated_; ///< by op
    std::unordered_map<std::uint32_t, const Recomputation*> recomputations_; ///< by pack, until backward unpacks
    std::unordered_map<c10::OperatorHandle, OpFacts> facts_;

    /// For backward, in which autograd may have several threads. Forward has a single thread, and takes no lock:
    /// autocast's cache is locked during a cast, and a recomputation empties that cache.
    mutable std::recursive_mutex mutex_;
    std::uint32_t nextOp_ = 0;
    std::uint32_t nextPack_ = 0;
    std::unordered_map<const c10::StorageImpl*, ValueId> values_; ///< valid while the value's original lives
    std::vector<Made> made_; ///< by value
    std::unordered_map<std::uint32_t, RepeatedCall> calls_; ///< by op
    std::vector<std::weak_ptr<at::Tensor>> kept_; ///< tensors of packs that were not dropped, in order
    std::vector<ValueId> keptValues_; ///< values of kept_
    bool measured_ = false;
    OpsExecuted executed_;
};

/// Makes the step of this thread follow a plan while the scope lives.
class OpsExecutionScope
{
public:
    explicit OpsExecutionScope(const std::shared_ptr<OpsExecution>& execution)
        : interposition_(*execution)
        , hooks_([execution] { return execution->save(); })
    {
    }

private:
    InterpositionScope interposition_;
    SavedTensorHooksScope hooks_;
};

} // namespace headroom
