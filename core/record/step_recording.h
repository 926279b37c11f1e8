// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/cost/roofline.h"
#include "core/device/simulated_allocator.h"
#include "core/device/stream_observer.h"
#include "core/record/autograd_node.h"
#include "core/record/device_measurement.h"
#include "core/record/held_arguments.h"
#include "core/record/node_table.h"
#include "core/record/op_cost.h"
#include "core/record/op_facts.h"
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

/// A step while it is recorded: what the interceptor, the allocator, autograd's saved tensors and hooks report goes
/// through here into the builder. Its methods may be called from the step's thread and from autograd's.
///
/// Hooks in the autograd graph may outlive the recording; they hold it weakly.
///
/// On a real device the times of the ops' kernels take the place of the roofline's.
///
/// Other threads of the program (those that load data) may use the device meanwhile: what they hold counts, their ops
/// are not the step's. Nor are ops that touch no tensor of the device: a script prepares its batch on the CPU.
class StepRecording final : public sim::BlockObserver, public sim::StreamObserver
{
public:
    /// What the device held when a step ended, by address, which no later block has.
    using EndState = std::unordered_map<const void*, Category>;

    /// `real` null: the simulated device.
    StepRecording(StepInfo info, DeviceSpec device, std::shared_ptr<RealDevice> real);

    /// The recording of this process; null when there is none.
    static std::shared_ptr<StepRecording> active();
    /// Makes `recording` the active one, or none.
    static void activate(std::shared_ptr<StepRecording> recording);

    // --- the start state, in this order
    void addModule(std::string_view fqn, std::string_view type, ModuleId parent);
    void declare(const at::Tensor& tensor, Category category); ///< what a storage was declared as first counts
    /// Marks stepBegin. What is alive and was not declared keeps the category that it had when the step before ended;
    /// what is newer than that end is the batch. `before` null: it is `other`.
    void start(const EndState* before);
    void addRegistered(ModuleId module, std::string_view name, const at::Tensor& tensor, Category category);
    /// A leaf and the module that owns it: the op that accumulates its gradient belongs to that module.
    /// False: it has an owner already (a tied weight has several; the first counts).
    bool addLeaf(const at::Tensor& leaf, ModuleId owner);

    // --- ops, from the interceptor
    struct RunningOp
    {
        OpId id; ///< invalid: not one of the step's
        OpFacts* facts = nullptr;
        StepTraceBuilder::Op columns;
        ModuleId region; ///< of the innermost call; the op of compiled code may be of a module inside
        std::uint64_t traced = 0; ///< the number under which a real device traces its work; 0: it does not
        bool communicates = false; ///< with other ranks, as said already
        bool waits = false; ///< has not begun in the trace, as it has touched nothing of the device yet
        std::uint16_t flags = 0; ///< before beginOp() those that the interceptor knows
        std::vector<StorageId> inputs;
        std::vector<StorageId> mutated;
        std::vector<StorageId> outputs;
        OpCost cost;
    };
    void beginOp(const c10::OperatorHandle& op, const torch::jit::Stack& stack, RunningOp& running);
    /// Around what the op runs: its kernels are found by it.
    void enterTrace(const RunningOp& running) const noexcept;
    void leaveTrace(const RunningOp& running) const noexcept;
    /// The module that it belongs to; empty: none.
    std::string moduleOf(const RunningOp& running) const;
    /// `stack` holds the results; null when the op threw.
    void endOp(RunningOp& running, const torch::jit::Stack* stack);

    // --- memory, from the allocator
    void allocated(sim::Block& block) override;
    void freed(sim::Block& block) override;
    void moved(sim::Block& old, sim::Block& replacement) override;
    /// An op of its own in the step (core/trace/out_of_memory.h), at this instant: the op that asked is cut in two.
    void refused(Bytes requested, Bytes deviceFree) override;

    // --- streams and other ranks, of the simulated device
    void communicated(const sim::Communication& communication) override;
    void streamEvent(StreamEventKind kind, std::uint32_t stream, std::uint32_t event) override;

    // --- saved tensors
    struct Pack
    {
        PackId id;
        StorageId storage;
        bool shadowed = false; ///< the storage is the step's own: autograd's hold is recorded apart from the program's
        void* address = nullptr; ///< of its block
        std::shared_ptr<sim::DeviceMemory> memory; ///< of a shadowed one: on the card autograd would hold it, too
    };
    Pack pack(const at::Tensor& tensor);
    void unpack(const Pack& pack);
    void unpackEnd(const Pack& pack);
    void release(const Pack& pack);
    /// A tensor of which autograd holds but the shape, from here to forget().
    void remember(ShadowSave& save, const Pack& pack);
    void forget(ShadowSave& save);
    /// Autograd holds from here on what it saved, as it does when nobody records: a graph may outlive its step.
    void giveBackSaved();
    sim::BlockTag tagOf(StorageId storage) const noexcept { return {epoch_, storage.value}; }

    // --- modules
    CallId enter(ModuleId module, at::ArrayRef<at::Tensor> arguments);
    /// Tensors that a checkpoint of the innermost call holds, besides its arguments (see HeldArguments).
    void addHeld(CallId call, at::ArrayRef<at::Tensor> tensors, at::IntArrayRef places);
    void exit(CallId call, at::ArrayRef<at::Tensor> results);
    void backwardEnter(CallId call);
    void backwardExit(CallId call);
    /// Calls whose arguments need no gradient end when the backward pass does.
    void exitAfterBackward(CallId call);
    /// The calls above, last first, if this is the first question in this backward pass; and whether it is.
    bool takeCallsToExit(std::vector<CallId>& calls);
    void backwardPassEnded();

    // --- phases
    void retype(const at::Tensor& tensor, Category category);
    void setPhase(Phase phase);
    void mark(Mark mark);
    /// Whether the program may change the parameters itself now.
    void setOwnUpdate(bool updates);
    /// While a backward pass builds a graph of itself, GradMode does not tell a recomputed forward.
    void setBuildsBackwardGraph(bool builds);
    void setRecomputes(bool recomputes);
    /// While PyTorch compiles, its ops are none of the step's: they run on tensors without memory, or to fold
    /// constants.
    void setCompiles(bool compiles);
    bool compiles() const noexcept { return compiles_; }
    /// The module that ops come from until the next call, by its path inside of the region that was compiled
    /// (".layers.0"); `inside` false: they are the program's own again.
    void setOrigin(std::string_view path, bool inside);

    /// The step's, to be completed until finish().
    StepInfo& info() noexcept { return builder_.info; }
    EndState endState() const;
    /// Stops counting and gives the step.
    Result<StepTracePtr> finish();

private:
    struct OpenCall
    {
        CallId call;
        ModuleId module;
        bool again; ///< inside of a backward node: a checkpoint runs its region again
    };
    /// Where an op or an allocation happens, seen from autograd.
    struct Situation
    {
        bool backward = false; ///< inside a backward pass
        bool recomputed = false; ///< a forward op that runs again inside of it
        NodePtr node; ///< that runs now
        std::string pythonName; ///< of a node that is a torch.autograd.Function: its class says less than its name
    };
    Situation situation() const;
    static std::string pythonNameOf(const torch::autograd::Node& node);

    sim::Block* blockOf(const at::Tensor& tensor) const;
    StorageId storageOf(const at::Tensor& tensor) const;
    StorageId tagged(const sim::Block* block) const;
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
    void place(const Situation& where, StepTraceBuilder::Op& op);

    mutable std::mutex mutex_;
    StepTraceBuilder builder_;
    const DeviceSpec device_;
    std::optional<DeviceMeasurement> measurement_; ///< on a real device
    RecordedMemory& memory_;
    const std::uint32_t epoch_;
    bool hasModules_ = false; ///< the first is the root, to which belongs what belongs to none
    std::vector<std::string> moduleNames_; ///< by ModuleId
    std::uint32_t startStorages_ = 0; ///< ids below were there before the step
    std::unordered_map<const sim::Block*, Category> declared_;
    std::unordered_map<c10::OperatorHandle, OpFacts> facts_;
    std::unordered_map<std::type_index, StringId> nodeNames_;
    std::unordered_map<const c10::TensorImpl*, ModuleId> leaves_;
    NodeTable nodes_;
    std::unordered_map<ShadowSave*, Pack> saved_;
    std::vector<ModuleId> opModules_; ///< by OpId
    std::vector<ModuleId> opRegions_; ///< by OpId: RunningOp::region
    std::optional<std::string> origin_; ///< setOrigin()
    std::unordered_map<std::string_view, ModuleId> moduleOfName_; ///< of moduleNames_, once an origin was asked for
    std::vector<OpenCall> calls_;
    HeldArguments heldArguments_;
    std::atomic<int> callsAgain_{0}; ///< of them, those that run again
    std::atomic<int> recomputations_{0}; ///< that run now
    std::atomic<bool> compiles_{false};
    std::unordered_map<int, std::uint32_t> passes_; ///< autograd's graph task -> number of the backward pass
    std::uint32_t passCount_ = 0;
    std::vector<CallId> exitAfterBackward_;
    bool exitsQueued_ = false;
    OpId openOp_;
    RunningOp* running_ = nullptr; ///< the op that runs now
    std::thread::id stepThread_;
    std::atomic<bool> buildsBackwardGraph_{false};
    Phase phase_ = Phase::forward;
    bool ownUpdate_ = false;
    std::int64_t inventedBefore_ = 0;
};

} // namespace headroom
