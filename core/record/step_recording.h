// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/cost/roofline.h"
#include "core/device/simulated_allocator.h"
#include "core/device/stream_observer.h"
#include "core/record/device_measurement.h"
#include "core/record/module_call.h"
#include "core/record/node_table.h"
#include "core/record/op_cost.h"
#include "core/record/op_facts.h"
#include "core/record/saved_leaves.h"
#include "core/trace/step_trace_builder.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <typeindex>
#include <unordered_map>
#include <vector>

namespace headroom {

class ShadowSave;

using WeakTensor = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

/// A step under recording. The interceptor, the allocator, autograd's saved tensors and the hooks report to the
/// recording; the recording passes the reports to the builder. The step's thread and autograd's threads may call the
/// methods.
///
/// Hooks in the autograd graph may outlive the recording: hooks hold the recording by weak pointers.
///
/// On a real device, measured times of kernels replace the times of the roofline.
///
/// Other threads of the program, such as data loaders, may use the device meanwhile: the memory counts, but the ops are
/// not part of the step. Ops that touch no tensor of the device are not part of the step either: a script prepares a
/// batch on the CPU.
class StepRecording final : public sim::BlockObserver, public sim::StreamObserver
{
public:
    /// The categories of the blocks that were alive when a step ended, by address; no later block gets the same
    /// address.
    using EndState = std::unordered_map<const void*, Category>;

    /// `real` null: the simulated device.
    StepRecording(StepInfo info, DeviceSpec device, std::shared_ptr<RealDevice> real);

    /// Returns the active recording of this process; null if there is none.
    static std::shared_ptr<StepRecording> active();
    /// Makes `recording` the active recording; null: none is active.
    static void activate(std::shared_ptr<StepRecording> recording);

    // --- the start state, in this order
    void addModule(std::string_view fqn, std::string_view type, ModuleId parent);
    void declare(const at::Tensor& tensor, Category category); ///< a storage's first declaration counts
    /// Marks stepBegin. Storages that are alive and were not declared keep the category from the end of the previous
    /// step (`before`); newer storages are the batch. `before` null: undeclared storages are `other`.
    void start(const EndState* before);
    void addRegistered(ModuleId module, std::string_view name, const at::Tensor& tensor, Category category);
    /// Registers a leaf tensor and the owner: the op that accumulates the leaf's gradient belongs to that module.
    /// Returns false if the leaf already has an owner (a tied weight has several modules; the first owns the leaf).
    bool addLeaf(const at::Tensor& leaf, ModuleId owner);

    // --- ops, from the interceptor
    struct RunningOp
    {
        OpId id; ///< invalid: the op is not part of the step
        OpFacts* facts = nullptr;
        StepTraceBuilder::Op columns;
        ModuleId region; ///< module of the innermost call; an op of compiled code may belong to an inner module
        std::uint64_t traced = 0; ///< the number of the op's work in a real device's trace; 0: not traced
        bool communicates = false; ///< the op has reported a communication with other ranks
        bool waits = false; ///< not yet begun in the trace: the op has touched nothing on the device
        std::uint16_t flags = 0; ///< before beginOp(): only the flags that the interceptor knows
        FrameId
            frame; ///< of the process (core/device/source_frames.h); in backward, the forward op's if there is no own
        std::vector<StorageId> inputs;
        std::vector<StorageId> mutated;
        std::vector<StorageId> outputs;
        OpCost cost;
    };
    void beginOp(const c10::OperatorHandle& op, const torch::jit::Stack& stack, RunningOp& running);
    /// Bracket the op's kernel on a real device, so that the trace attributes the kernel's work to the op.
    void enterTrace(const RunningOp& running) const noexcept;
    void leaveTrace(const RunningOp& running) const noexcept;
    /// Returns the name of the op's module; empty: none.
    std::string moduleOf(const RunningOp& running) const;
    /// `stack` holds the results; null when the op threw.
    void endOp(RunningOp& running, const torch::jit::Stack* stack);

    // --- memory, from the allocator
    void allocated(sim::Block& block) override;
    void freed(sim::Block& block) override;
    void moved(sim::Block& old, sim::Block& replacement) override;
    /// Records the failed allocation as a separate op (core/trace/out_of_memory.h). The new op splits the op that asked
    /// for the memory.
    void refused(Bytes requested, Bytes deviceFree, const sim::FreePieces& pieces) override;
    void reserved(Bytes bytes) override;
    void used(const sim::Block& block, std::uint32_t stream) override;

    // --- streams and other ranks, simulated device only
    void communicated(const sim::Communication& communication) override;
    void streamEvent(StreamEventKind kind, std::uint32_t stream, std::uint32_t event) override;

    // --- saved tensors
    struct Pack
    {
        PackId id;
        StorageId storage;
        NodeNumber node; ///< the last node when the tensor was saved
        bool shadowed = false; ///< the step created the storage: autograd's hold is recorded separately
        void* address = nullptr; ///< address of the storage's block
        std::shared_ptr<sim::DeviceMemory> memory; ///< if shadowed: the memory that autograd would hold on the card
    };
    Pack pack(const at::Tensor& tensor);
    void unpack(const Pack& pack);
    void unpackEnd(const Pack& pack);
    void release(const Pack& pack);
    /// Records a leaf that autograd saves without hooks.
    void packLeaf(const at::Tensor& leaf);
    /// An op reads a result of a node that saved a leaf (SavedLeaves::awaits()).
    void nodeIsMade(const NodePtr& node);
    /// The running node `node` may unpack a leaf.
    void leafIsAsked(const at::TensorBase& leaf, const torch::autograd::Node& node);
    /// A node has run in a backward pass that does not keep the graph: autograd releases the node's saved tensors.
    void nodeHasRun(const torch::autograd::Node& node);
    /// Registers a shadowed save, until forget().
    void remember(ShadowSave& save, const Pack& pack);
    void forget(ShadowSave& save);
    /// Lets autograd hold the storages of all saved tensors, as without recording: a graph may outlive the step.
    void giveBackSaved();
    sim::BlockTag tagOf(StorageId storage) const noexcept { return {epoch_, storage.value}; }

    // --- modules
    CallId enter(ModuleId module, at::ArrayRef<at::Tensor> arguments);
    /// Adds tensors that a checkpoint of the innermost call holds besides the call's arguments (see HeldArguments).
    void addHeld(CallId call, at::ArrayRef<at::Tensor> tensors, at::IntArrayRef places);
    /// Takes back what addHeld() added at `places`.
    void removeHeld(CallId call, at::IntArrayRef places);
    void exit(CallId call, at::ArrayRef<at::Tensor> results);
    void backwardEnter(CallId call);
    void backwardExit(CallId call);
    /// Registers a call without an argument that needs a gradient: the call's backward ends with the backward pass.
    void exitAfterBackward(CallId call);
    /// Moves the calls of exitAfterBackward(), last first, to `calls`. Returns true only for the first request in a
    /// backward pass.
    bool takeCallsToExit(std::vector<CallId>& calls);
    void backwardPassEnded();

    // --- phases
    /// The operator retype_parts (_step.py) takes apart a tensor that only wraps others, such as a DTensor.
    void retype(const at::Tensor& tensor, Category category);
    /// Called before a tensor gets the storage of `data`: the new storage of a parameter is a parameter, too.
    void dataIsReplaced(const at::Tensor& tensor, const at::Tensor& data);
    /// Called with a parameter that the program makes within the step.
    void parameterIsMade(const at::Tensor& parameter);
    void setPhase(Phase phase);
    void mark(Mark mark);
    /// Sets whether the program may update parameters itself now.
    void setOwnUpdate(bool updates);
    /// Sets whether a backward pass builds a graph of the pass itself: GradMode then does not distinguish a recomputed
    /// forward.
    void setBuildsBackwardGraph(bool builds);
    void setRecomputes(bool recomputes);
    void reportsRecomputations() { reportsRecomputations_ = true; }
    /// Sets whether PyTorch compiles. Ops are then not part of the step: such ops run on tensors without memory, or
    /// fold constants.
    void setCompiles(bool compiles);
    bool compiles() const noexcept { return compiles_; }
    /// Attributes ops to the module at `path` inside the compiled region (".layers.0"), until the next call. `inside`
    /// false: the ops are the program's own again.
    void setOrigin(std::string_view path, bool inside);

    void setOutside(StepTraceBuilder::Outside beforeTraining, StepTraceBuilder::Outside betweenSteps)
    {
        builder_.setOutside(std::move(beforeTraining), std::move(betweenSteps));
    }
    /// The facts of the step; complete the facts before finish().
    StepInfo& info() noexcept { return builder_.info; }
    EndState endState() const;
    /// Stops counting and returns the step. Error (internal): the trace is invalid; the sentence names the first
    /// violation.
    Result<StepTracePtr> finish();

private:
    struct OpenCall
    {
        CallId call;
        ModuleId module;
        bool again; ///< called inside a backward node
        bool own; ///< the node's own computation (isOwnForward), no recomputation of a checkpoint
    };
    /// The state of autograd at an op or an allocation.
    struct Situation
    {
        bool backward = false; ///< inside a backward pass
        bool recomputed = false; ///< a forward op that runs inside the backward pass
        NodePtr node; ///< the node that runs now
        std::string pythonName; ///< of a torch.autograd.Function: all Functions share a C++ class
    };
    Situation situation() const;
    static std::string pythonNameOf(const torch::autograd::Node& node);
    static bool isPythonNode(const torch::autograd::Node& node);
    OpId savingOp(StorageId storage) const;
    void releaseLeaves(const std::vector<PackId>& packs);
    bool isOwnForward(const std::string& pythonName) const;

    sim::Block* blockOf(const at::Tensor& tensor) const;
    StorageId storageOf(const at::Tensor& tensor) const;
    StorageId tagged(const sim::Block* block) const;
    StorageId tagged(sim::BlockTag tag) const;
    void addStorages(const c10::IValue& value, std::vector<StorageId>& storages) const;
    std::vector<StorageId> storagesOf(at::ArrayRef<at::Tensor> tensors) const;
    Category categoryOfAllocation() const;
    Phase phaseOf(const Situation& where) const;
    bool isOwnUpdate(const Situation& where, const std::vector<StorageId>& inputs) const;
    OpFacts& factsOf(const c10::OperatorHandle& op);
    StringId nameOf(const Situation& where);
    bool isOfStep(const Situation& where) const;
    bool isThreadOfStep(bool inBackward) const noexcept;
    std::uint32_t passOf(int graphTask);
    void beginInTrace(RunningOp& running);
    void interrupt(RunningOp& running);
    ModuleId originIn(ModuleId region);
    FrameId frameOfStep(FrameId frame);
    void place(const Situation& where, StepTraceBuilder::Op& op);

    mutable std::mutex mutex_;
    StepTraceBuilder builder_;
    const DeviceSpec device_;
    std::optional<DeviceMeasurement> measurement_; ///< real devices only
    RecordedMemory& memory_;
    const std::uint32_t epoch_;
    bool hasModules_ = false; ///< the first is the root: the owner of everything without a module
    std::vector<std::string> moduleNames_; ///< by ModuleId
    std::uint32_t startStorages_ = 0; ///< storages with smaller ids existed before the step
    std::unordered_map<const sim::Block*, Category> declared_;
    std::unordered_map<c10::OperatorHandle, OpFacts> facts_;
    std::unordered_map<std::type_index, StringId> nodeNames_;
    struct OwnedLeaf
    {
        WeakTensor leaf; ///< no other tensor gets the leaf's address
        ModuleId owner;
    };
    std::unordered_map<const c10::TensorImpl*, OwnedLeaf> leaves_;
    NodeTable nodes_;
    std::unordered_map<ShadowSave*, Pack> saved_;
    SavedLeaves savedLeaves_;
    std::vector<ModuleId> opModules_; ///< by OpId
    std::vector<ModuleId> opRegions_; ///< by OpId: RunningOp::region
    std::vector<FrameId> opFrames_; ///< by OpId: RunningOp::frame
    std::vector<FrameId> framesOfStep_; ///< by frame of the process: the step's row; invalid: not yet added
    std::optional<std::string> origin_; ///< path given to setOrigin()
    std::unordered_map<std::string_view, ModuleId> moduleOfName_; ///< index of moduleNames_, if an origin was set
    std::vector<OpenCall> calls_;
    HeldArguments heldArguments_;
    std::atomic<int> callsAgain_{0}; ///< number of calls in calls_ with `again`
    std::atomic<int> ownCallsAgain_{0}; ///< number of calls with `again` and `own`
    bool reportsRecomputations_ = false; ///< whether recomputations_ counts all but reentrant checkpoints
    std::atomic<int> recomputations_{0}; ///< number of recomputations that run now
    std::atomic<bool> compiles_{false};
    std::unordered_map<int, std::uint32_t> passes_; ///< autograd's graph task -> number of the backward pass
    std::uint32_t passCount_ = 0;
    std::vector<CallId> exitAfterBackward_;
    bool exitsQueued_ = false;
    OpId openOp_;
    RunningOp* running_ = nullptr; ///< the op that runs now
    std::size_t opsOfOtherThreads_ = 0; ///< outside of backward, while no op of the step ran
    std::thread::id stepThread_;
    std::atomic<bool> buildsBackwardGraph_{false};
    Phase phase_ = Phase::forward;
    bool ownUpdate_ = false;
    std::int64_t placeholdersBefore_ = 0;
};

} // namespace headroom
