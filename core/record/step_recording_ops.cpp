// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
//
// The part of StepRecording for ops and backward passes: membership in the step, and the place in the step.
#include "core/record/step_recording.h"

#include "core/device/boxed_values.h"
#include "core/device/simulated_guard.h"
#include "core/device/source_frames.h"
#include "core/record/captured_graph.h"
#include "core/trace/graph_ops.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace headroom {
namespace {

/// The sequence number of AccumulateGrad, the highest: the engine runs AccumulateGrad as soon as possible.
constexpr std::uint64_t accumulateGradSequence = std::numeric_limits<std::uint64_t>::max();

/// Nodes that an op checks for destruction: a limit to the time of an op.
constexpr std::size_t looksPerOp = 512;

/// "torch::autograd::AccumulateGrad" → "AccumulateGrad".
std::string_view withoutNamespace(std::string_view name)
{
    const std::size_t colons = name.rfind("::");
    return colons == std::string_view::npos ? name : name.substr(colons + 2);
}

/// Returns whether an op takes a tensor of a GPU, or makes such a tensor. Ops on the host, as in the thread in which a
/// DataLoader pins memory, belong to no step.
bool concernsGpu(const c10::OperatorHandle& op, const torch::jit::Stack& stack)
{
    const auto isOnHost = [](const at::Tensor& tensor) { return tensor.is_cpu(); };
    return std::ranges::any_of(argumentsOf(op, stack), [&](const c10::IValue& value) {
        return value.isDevice() ? !value.toDevice().is_cpu() : !allTensors(value, isOnHost);
    });
}

} // namespace

/// Returns an empty name for a C++ node. Call without mutex_: name() may wait for the GIL, and the thread that holds
/// the GIL may wait for mutex_.
std::string StepRecording::pythonNameOf(const torch::autograd::Node& node)
{
    return isPythonNode(node) ? node.name() : std::string();
}

bool StepRecording::isPythonNode(const torch::autograd::Node& node)
{
    static const std::string_view pythonNode = "N5torch8autograd6PyNodeE";
    return typeid(node).name() == pythonNode;
}

/// Returns whether forward ops inside the backward of a node are the node's own computation, in a Function or in a
/// hook. Reentrant checkpoints (PyTorch's, DeepSpeed's, Megatron's) are Functions, too: only the name tells a
/// checkpoint.
bool StepRecording::isOwnForward(const std::string& pythonName) const
{
    return reportsRecomputations_ && recomputations_ == 0 && pythonName.find("heckpoint") == std::string::npos;
}

StepRecording::Situation StepRecording::situation() const
{
    Situation where;
    where.backward = torch::autograd::get_current_graph_task_id() != -1;
    where.node = torch::autograd::get_current_node();
    // A backward pass that builds a graph of itself also enables gradients, but only a recomputation calls modules.
    where.recomputed = where.node
        && ((at::GradMode::is_enabled() && !buildsBackwardGraph_) || callsAgain_ > 0 || recomputations_ > 0);
    return where;
}

std::uint32_t StepRecording::passOf(int graphTask)
{
    // Outside of backward each unpack is a separate pass, as in torch/utils/checkpoint.py.
    if (graphTask == -1)
        return passCount_++;
    const auto [entry, isNew] = passes_.try_emplace(graphTask, passCount_);
    passCount_ += isNew ? 1 : 0;
    return entry->second;
}

bool StepRecording::isOfStep(const Situation& where) const
{
    // Two autograd threads may run at once, but ops do not nest in a step.
    return !running_ && !compiles_ && isThreadOfStep(where.backward);
}

bool StepRecording::isThreadOfStep(bool inBackward) const noexcept
{
    return inBackward || std::this_thread::get_id() == stepThread_;
}

Phase StepRecording::phaseOf(const Situation& where) const
{
    if (phase_ == Phase::optimizer || phase_ == Phase::zeroGrad)
        return phase_;
    return where.backward ? Phase::backward : phase_;
}

/// Returns whether an op belongs to the program's own update of parameters. Results of such ops have the category
/// optimizer, so that the ops that follow belong to the update, too.
bool StepRecording::isOwnUpdate(const Situation& where, const std::vector<StorageId>& inputs) const
{
    const auto isUpdated = [this](StorageId storage) {
        const Category category = builder_.categoryOf(storage);
        return category == Category::parameter || category == Category::gradient || category == Category::optimizer;
    };
    return ownUpdate_ && !where.backward && calls_.empty() && !nodes_.nodesWait()
        && std::ranges::any_of(inputs, isUpdated);
}

Category StepRecording::categoryOfAllocation() const
{
    if (phase_ == Phase::optimizer)
        return Category::optimizer;
    if (phase_ == Phase::backward && CapturedGraph::isReplayed())
        return Category::temporary;
    const Situation where = situation();
    return where.backward && !where.recomputed ? Category::temporary : Category::activation;
}

OpFacts& StepRecording::factsOf(const c10::OperatorHandle& op)
{
    const auto found = facts_.find(op);
    if (found != facts_.end())
        return found->second;
    OpFacts& facts = facts_.emplace(op, opFacts(op)).first->second;
    facts.id = builder_.string(facts.name);
    return facts;
}

StringId StepRecording::nameOf(const Situation& where)
{
    if (!where.pythonName.empty())
        return builder_.string(where.pythonName);
    const torch::autograd::Node& node = *where.node;
    const auto [entry, isNew] = nodeNames_.try_emplace(std::type_index(typeid(node)));
    if (isNew)
        entry->second = builder_.string(withoutNamespace(node.name()));
    return entry->second;
}

void StepRecording::place(const Situation& where, StepTraceBuilder::Op& op)
{
    op.phase = phaseOf(where);
    if (hasModules_)
        op.module = ModuleId(0);
    if (!calls_.empty() && (!where.node || where.recomputed)) {
        op.call = calls_.back().call;
        op.module = calls_.back().module;
    }
    if (!where.node)
        return;
    op.node = nameOf(where);
    if (where.node->sequence_nr() == accumulateGradSequence) {
        const auto* accumulate = dynamic_cast<const torch::autograd::AccumulateGrad*>(where.node.get());
        const auto leaf = accumulate ? leaves_.find(accumulate->variable.unsafeGetTensorImpl()) : leaves_.end();
        if (leaf != leaves_.end())
            op.module = leaf->second.owner;
        return;
    }
    const OpId forward = nodes_.opOf(where.node->thread_id(), where.node->sequence_nr());
    if (!forward.valid())
        return;
    if (!op.call.valid())
        op.module = opRegions_[forward.value];
    if (!where.recomputed)
        op.forwardOp = forward;
}

void StepRecording::beginOp(const c10::OperatorHandle& op, const torch::jit::Stack& stack, RunningOp& running)
{
    Situation where = situation();
    if (where.node)
        where.pythonName = pythonNameOf(*where.node);
    // Outside of mutex_: a frame of Python needs the GIL, and a thread with the GIL may wait for mutex_. A node of C++
    // that runs in the step's thread has the frame of backward(), which is not the node's.
    if (!where.backward || where.recomputed || !where.pythonName.empty() || std::this_thread::get_id() != stepThread_)
        running.frame = sim::currentFrame();
    const std::lock_guard lock(mutex_);
    if (!isOfStep(where)) {
        opsOfOtherThreads_ += running_ || compiles_ || !concernsGpu(op, stack) ? 0 : 1;
        return;
    }
    if (!where.backward)
        releaseLeaves(savedLeaves_.takeOfDestroyed(looksPerOp));
    OpFacts& facts = factsOf(op);
    const std::size_t first = stack.size() - facts.arguments;
    for (std::size_t i = 0; i < facts.arguments; ++i) {
        const std::size_t before = running.inputs.size();
        addStorages(stack[first + i], running.inputs);
        if (writes(facts, stack, first, i))
            running.mutated.insert(running.mutated.end(), running.inputs.begin() + static_cast<std::ptrdiff_t>(before),
                                   running.inputs.end());
    }
    if ((facts.flags & opSacIgnored) == 0)
        std::ranges::for_each(running.inputs, [this](StorageId input) { heldArguments_.read(input); });
    running.facts = &facts;
    running.cost.addInputs(facts, stack);
    running.flags |= facts.flags;
    if (facts.dropout && stack[first + *facts.dropout].isDouble() && stack[first + *facts.dropout].toDouble() == 0)
        running.flags &= static_cast<std::uint16_t>(~opRandom);
    const bool own = where.recomputed && (ownCallsAgain_ > 0 || isOwnForward(where.pythonName));
    running.flags |= own ? opInBackwardForward : 0;
    running.flags |= where.recomputed && !own ? opRecomputed : 0;
    running.flags |= isAutocastCast(facts.kind, stack, facts.arguments) ? opAutocastCast : 0;
    running.flags |= running.cost.hasTensorInput() ? 0 : opNoTensorInput;

    running.columns.name
        = facts.kind == OpFacts::OpClass::opaque ? builder_.string(stack[first].toStringRef()) : facts.id;
    place(where, running.columns);
    running.columns.frame = frameOfStep(running.frame);
    if (const OpId forward = running.columns.forwardOp; forward.valid() && !running.frame.valid())
        running.frame = opFrames_[forward.value];
    running.region = running.columns.module;
    if (origin_) {
        running.flags |= opInCompiledGraph;
        running.columns.module = originIn(running.region);
    }
    if (isOwnUpdate(where, running.inputs))
        running.columns.phase = Phase::optimizer;
    running.id = OpId(static_cast<std::uint32_t>(builder_.opCount()));
    running.waits = running.inputs.empty();
    running_ = &running;
    if (measurement_)
        running.traced = measurement_->beginOp();
    nodes_.opBegins(running.id);
    if (!running.waits)
        beginInTrace(running);
}

/// Returns the module at the origin's path from `region`. If the step has no such module, as the compiler may know more
/// modules, returns the nearest enclosing module.
ModuleId StepRecording::originIn(ModuleId region)
{
    if (!region.valid())
        return region;
    if (moduleOfName_.empty())
        for (std::uint32_t i = 0; i < moduleNames_.size(); ++i)
            moduleOfName_.try_emplace(moduleNames_[i], i);
    const std::size_t least = moduleNames_[region.value].size();
    for (std::string name = moduleNames_[region.value] + *origin_; name.size() > least;) {
        if (const auto found = moduleOfName_.find(name); found != moduleOfName_.end())
            return found->second;
        name.resize(std::max(least, name.find_last_of('.') + 1) - 1);
    }
    return region;
}

std::string StepRecording::moduleOf(const RunningOp& running) const
{
    const ModuleId module = running.columns.module;
    return module.valid() && module.value < moduleNames_.size() ? moduleNames_[module.value] : std::string();
}

void StepRecording::beginInTrace(RunningOp& running)
{
    running.waits = false;
    running.id = builder_.beginOp(running.columns);
    if (!measurement_)
        builder_.setStream(running.id, sim::currentStreamNumber());
    openOp_ = running.id;
    opModules_.push_back(running.columns.module);
    opRegions_.push_back(running.region);
    opFrames_.push_back(running.frame);
}

/// Ends the running op at a failed allocation. An op that continues, as some ops do with less memory, is recorded as
/// another op from there.
void StepRecording::interrupt(RunningOp& running)
{
    if (running.waits)
        return;
    StepTraceBuilder::OpResult result;
    result.dtype = running.cost.dtype();
    result.flags = running.flags;
    result.inputs = running.inputs;
    result.mutated = running.mutated;
    builder_.endOp(running.id, result);
    if (measurement_)
        measurement_->endOp(running.traced, running.id, false);
    openOp_ = {};
    running.waits = true;
}

void StepRecording::endOp(RunningOp& running, const torch::jit::Stack* stack)
{
    const std::lock_guard lock(mutex_);
    if (!running.id.valid())
        return;
    running_ = nullptr;
    const OpFacts& facts = *running.facts;
    if (stack) {
        for (std::size_t i = stack->size() - facts.returns; i < stack->size(); ++i)
            addStorages((*stack)[i], running.outputs);
        running.cost.addOutputs(facts, *stack);
    }
    if (running.waits) {
        if (running.outputs.empty()) {
            nodes_.forget(running.id);
            return;
        }
        beginInTrace(running);
    }
    StepTraceBuilder::OpResult result;
    result.dtype = running.cost.dtype();
    result.flags = running.flags;
    result.bytes = running.cost.bytes();
    result.flops = running.cost.flops(facts);
    result.signature = running.cost.signature();
    result.ms = rooflineMs(device_, result.bytes, result.flops, result.dtype, result.flags);
    result.inputs = running.inputs;
    result.outputs = running.outputs;
    result.mutated = running.mutated;
    builder_.endOp(running.id, result);
    openOp_ = {};
    if (measurement_)
        measurement_->endOp(running.traced, running.id, result.ms > 0);
}

void StepRecording::communicated(const sim::Communication& communication)
{
    const std::lock_guard lock(mutex_);
    if (!running_)
        return;
    if (running_->waits)
        beginInTrace(*running_);
    if (std::exchange(running_->communicates, true))
        return;
    StepTraceBuilder::Collective collective;
    collective.kind = communication.kind;
    collective.bytes = communication.bytes;
    collective.group = builder_.group(communication.group, communication.ranks);
    collective.peer = communication.peer.value_or(StepTrace::Collectives::noPeer);
    collective.async = communication.async;
    builder_.collective(running_->id, collective);
    // Undeclared storages that live from step to step and are communicated: the buckets of DistributedDataParallel.
    for (const StorageId storage : running_->mutated) {
        if (builder_.categoryOf(storage) == Category::other)
            builder_.retype(storage, Category::communication);
    }
    if (!communication.async)
        return;
    builder_.streamEvent(StreamEventKind::record, sim::currentStreamNumber(), communication.before, running_->id);
    builder_.streamEvent(StreamEventKind::wait, communication.stream, communication.before, running_->id);
    builder_.setStream(running_->id, communication.stream);
}

void StepRecording::streamEvent(StreamEventKind kind, std::uint32_t stream, std::uint32_t event)
{
    const bool inBackward = torch::autograd::get_current_graph_task_id() != -1;
    const std::lock_guard lock(mutex_);
    if (isThreadOfStep(inBackward))
        builder_.streamEvent(kind, stream, event);
}

void StepRecording::enterTrace(const RunningOp& running) const noexcept
{
    if (running.traced != 0)
        measurement_->enterOp(running.traced);
}

void StepRecording::leaveTrace(const RunningOp& running) const noexcept
{
    if (running.traced != 0)
        measurement_->leaveOp();
}

} // namespace headroom
