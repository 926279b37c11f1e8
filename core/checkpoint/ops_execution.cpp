// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/checkpoint/ops_execution.h"

#include "core/checkpoint/selective_cache.h"
#include "core/device/boxed_values.h"
#include "core/device/simulated_state.h"
#include "core/record/op_cost.h"
#include "core/record/shadow_save.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

namespace headroom {
namespace {

constexpr c10::DispatchKey interceptionKey = c10::DispatchKey::Fake; // core/record/interceptor.cpp

/// Returns a tensor that keeps an argument. A number is copied, since the program frees the number after the op.
at::Tensor heldArgument(const at::Tensor& tensor)
{
    if (!tensor.unsafeGetTensorImpl()->is_wrapped_number())
        return detached(tensor, /*allowMetadataChange=*/true);
    at::Tensor copy = tensor.clone();
    copy.unsafeGetTensorImpl()->set_wrapped_number(true);
    return copy;
}

/// Whether an op changes an argument. The schema of batch normalisation does not mark the running statistics.
bool isChanged(const c10::OperatorHandle& op, const OpFacts& facts, std::size_t argument)
{
    return facts.written[argument] || op.schema().arguments()[argument].name().starts_with("running_");
}

/// Keeps the contents of tensors that an op changes. The destructor restores the contents, also after an exception.
class Restore
{
public:
    Restore() = default;
    Restore(const Restore&) = delete;
    Restore& operator=(const Restore&) = delete;
    ~Restore()
    {
        const Unseen unseen;
        for (const auto& [tensor, content] : contents_)
            tensor.copy_(content);
    }
    void add(const at::Tensor& tensor)
    {
        const Unseen unseen;
        contents_.emplace_back(tensor,
                               tensor.to(at::kCPU, tensor.scalar_type(), /*non_blocking=*/false, /*copy=*/true));
    }

private:
    std::vector<std::pair<at::Tensor, at::Tensor>> contents_;
};

} // namespace

Unseen::Unseen()
    : interception_(interceptionKey)
{
}

RepeatedCall::RepeatedCall(const c10::OperatorHandle& op, const OpFacts& facts, const torch::jit::Stack& stack,
                           bool random, const ValueOf& valueOf)
    : op_(op)
    , facts_(facts)
    , stack_(stack.end() - static_cast<std::ptrdiff_t>(facts.arguments), stack.end())
{
    const Unseen unseen;
    Values tensors;
    for (std::size_t i = 0; i < stack_.size(); ++i) {
        if (random && stack_[i].isGenerator())
            stack_[i] = stack_[i].toGenerator().clone();
        mapTensors(stack_[i], [&](const at::Tensor& tensor) {
            const ValueId value = valueOf(tensor);
            tensors_.push_back(
                {value, tensor.unsafeGetTensorImpl()->version_counter().current_version(), isChanged(op, facts, i)});
            tensors.emplace_back(tensor);
            return value.valid() ? shapeOf(tensor) : heldArgument(tensor);
        });
    }
    if (random)
        ambient_.emplace(tensors, true);
}

torch::jit::Stack RepeatedCall::runAgain(const StorageOf& storageOf, double& flops) const
{
    torch::jit::Stack stack = stack_;
    Restore restore;
    auto argument = tensors_.begin();
    for (c10::IValue& value : stack) {
        if (value.isGenerator())
            value = value.toGenerator().clone();
        mapTensors(value, [&](const at::Tensor& tensor) {
            const auto& [made, version, changes] = *argument++;
            if (made.valid())
                return onStorage(tensor, storageOf(made));
            const bool number = tensor.unsafeGetTensorImpl()->is_wrapped_number();
            if (changes)
                restore.add(tensor);
            else if (!number && tensor._version() != version)
                throw CheckpointError("`" + facts_.name
                                      + "` cannot run again: an argument from before the step was changed in place "
                                        "after the op had read that argument");
            return tensor;
        });
    }
    OpCost cost;
    cost.addInputs(facts_, stack);
    std::optional<AmbientState::Replay> ambience;
    if (ambient_) {
        const Unseen unseen;
        ambience.emplace(*ambient_);
    }
    {
        const at::AutoGradMode gradients(true); // marks a recomputation for the recorder
        const at::AutoDispatchBelowADInplaceOrView below;
        // Autocast's casts are repeated as calls. The guard is inside the replay, which changes autocast's state.
        const c10::impl::ExcludeDispatchKeyGuard autocast(c10::autocast_dispatch_keyset);
        op_.callBoxed(stack);
    }
    {
        const Unseen unseen;
        ambience.reset();
    }
    cost.addOutputs(facts_, stack);
    flops += cost.flops(facts_);
    return stack;
}

namespace {

c10::StorageImpl* storageImpl(const at::Tensor& tensor)
{
    return tensor.has_storage() ? tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl() : nullptr;
}

/// Whether a trace has the tensor's storage.
bool isRecorded(const at::Tensor& tensor)
{
    const c10::StorageImpl* storage = storageImpl(tensor);
    return storage && sim::SimulatedAllocator::blockOf(*storage);
}

c10::intrusive_ptr<c10::StorageImpl> shared(c10::StorageImpl* storage)
{
    return c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(storage);
}

bool inBackward()
{
    return torch::autograd::get_current_graph_task_id() != -1;
}

} // namespace

/// Hooks for a tensor that autograd saves. If the plan drops the tensor, only the shape is kept.
class OpsExecution::Save final : public torch::autograd::SavedVariableHooks
{
public:
    explicit Save(std::shared_ptr<OpsExecution> execution)
        : execution_(std::move(execution))
    {
    }
    void call_pack_hook(const at::Tensor& tensor) override
    {
        pack_ = execution_->pack(tensor);
        dropped_ = pack_.valid() && execution_->plan_.dropped[pack_.value];
        kept_ = std::make_shared<at::Tensor>(dropped_ ? shapeOf(tensor)
                                                      : detached(tensor, /*allowMetadataChange=*/false));
        if (!dropped_ && pack_.valid()) {
            execution_->kept_.push_back(kept_);
            execution_->keptValues_.push_back(execution_->valueOf(pack_));
        }
    }
    at::Tensor call_unpack_hook() override
    {
        if (pack_.valid())
            execution_->measureSaved();
        return dropped_ ? execution_->unpack(pack_, *kept_) : *kept_;
    }

private:
    std::shared_ptr<OpsExecution> execution_;
    PackId pack_; ///< invalid: not saved in forward
    bool dropped_ = false;
    std::shared_ptr<at::Tensor> kept_;
};

OpsExecution::OpsExecution(std::shared_ptr<const JointGraph> graph, OpsPlan plan)
    : graph_(std::move(graph))
    , trace_(*graph_->trace)
    , plan_(std::move(plan))
    , saved_(graph_->values.size(), false)
    , repeated_(trace_.ops.size(), false)
    , made_(graph_->values.size())
{
    for (const StorageId storage : plan_.saved)
        saved_[graph_->valueOf[storage.value].value] = true;
    std::unordered_set<std::uint32_t> nodes;
    for (const OpId op : plan_.recomputed) {
        repeated_[op.value] = true;
        nodes.insert(graph_->nodeOf[op.value].value);
    }
    for (const std::uint32_t node : nodes)
        for (const ValueId value : graph_->nodes[node].reads)
            ++made_[value.value].readers;
    for (const Recomputation& recomputation : plan_.recomputations)
        recomputations_.emplace(recomputation.pack.value, &recomputation);
    for (std::uint32_t event = 0; event < trace_.events.size(); ++event) {
        if (trace_.events.kind[EventIndex(event)] != EventKind::unpack)
            continue;
        const PackId pack(trace_.events.a[EventIndex(event)]);
        if (plan_.dropped[pack.value])
            ++made_[valueOf(pack).value].unpacks;
    }
}

std::unique_ptr<torch::autograd::SavedVariableHooks> OpsExecution::save()
{
    return std::make_unique<Save>(shared_from_this());
}

OpsExecuted OpsExecution::executed() const
{
    const std::lock_guard lock(mutex_);
    return executed_;
}

Status OpsExecution::complete() const
{
    const std::lock_guard lock(mutex_);
    if (inForward())
        return badInput("the step ended before op " + std::to_string(nextOp_) + " of the plan, `"
                        + std::string(trace_.opName(OpId(nextOp_))) + "`: plan the step that is run");
    if (!recomputations_.empty())
        return badInput("backward asked for " + std::to_string(recomputations_.size())
                        + " tensors less than the plan makes again: plan the step that is run");
    return {};
}

bool OpsExecution::inForward() const
{
    return nextOp_ < trace_.ops.size() && trace_.ops.phase[OpId(nextOp_)] == Phase::forward;
}

ValueId OpsExecution::valueOf(PackId pack) const
{
    const StorageId storage = trace_.packs.storage[pack];
    return storage.valid() ? graph_->valueOf[storage.value] : ValueId();
}

/// Returns the value of a tensor that a node of the graph made; invalid for other tensors.
ValueId OpsExecution::valueOf(const at::Tensor& tensor) const
{
    const auto found = values_.find(storageImpl(tensor));
    if (found == values_.end() || made_[found->second.value].original.expired())
        return {};
    return found->second;
}

bool OpsExecution::dropped(ValueId value) const
{
    const JointGraph::Value& is = (*graph_)[value];
    return is.node.valid() && !is.kept && !saved_[value.value];
}

OpFacts& OpsExecution::factsOf(const c10::OperatorHandle& op)
{
    const auto found = facts_.find(op);
    return found != facts_.end() ? found->second : facts_.emplace(op, opFacts(op)).first->second;
}

void OpsExecution::call(const c10::OperatorHandle& op, torch::jit::Stack& stack, c10::function_ref<void()> run)
{
    if (inBackward() || !inForward()) {
        measureSaved();
        run();
        return;
    }
    const OpFacts& facts = factsOf(op);
    const OpId id(nextOp_);
    const bool named = trace_.opName(id) == facts.name;
    bool ofStep = anyTensor(stack, facts.arguments, isRecorded);
    std::optional<RepeatedCall> again;
    if (repeated_[id.value] && named)
        again.emplace(op, facts, stack, (trace_.ops.flags[id] & opRandom) != 0,
                      [this](const at::Tensor& tensor) { return valueOf(tensor); });
    const auto allocations = sim::simulatedState().allocator.stats().allocations;
    run();
    ofStep = ofStep || anyTensor(stack, facts.returns, isRecorded)
        || sim::simulatedState().allocator.stats().allocations != allocations;
    if (!ofStep)
        return;
    if (!named)
        throw CheckpointError("the step calls `" + facts.name + "` where the plan has op " + std::to_string(id.value)
                              + ", `" + std::string(trace_.opName(id)) + "`: plan the step that is run");
    if (again)
        calls_.emplace(id.value, *std::move(again));
    hasRun(id, facts, stack);
    ++nextOp_;
}

std::string OpsExecution::otherSizes(OpId op) const
{
    return "op " + std::to_string(op.value) + ", `" + std::string(trace_.opName(op))
        + "`, gives other results than in the step that was planned: plan the step that is run";
}

void OpsExecution::hasRun(OpId op, const OpFacts& facts, const torch::jit::Stack& stack)
{
    const auto outputs = trace_.ops.outputs[op];
    std::size_t index = 0;
    for (std::size_t i = stack.size() - facts.returns; i < stack.size(); ++i) {
        forEachTensor(stack[i], [&](const at::Tensor& tensor) {
            if (!isRecorded(tensor))
                return;
            if (index == outputs.size())
                throw CheckpointError(otherSizes(op));
            const StorageId storage = outputs[index++];
            const ValueId value = graph_->valueOf[storage.value];
            if (trace_.storages.creator[storage] != op || !value.valid() || !(*graph_)[value].node.valid())
                return;
            const Bytes requested = sim::SimulatedAllocator::blockOf(*storageImpl(tensor))->requested;
            if ((*graph_)[(*graph_)[value].node].repeat == Repeat::again
                && requested != trace_.storages.requested[storage])
                throw CheckpointError(otherSizes(op));
            made_[value.value].original = c10::weak_intrusive_ptr<c10::StorageImpl>(shared(storageImpl(tensor)));
            values_[storageImpl(tensor)] = value;
        });
    }
    holdForReaders(op);
}

/// After the last op of a node: holds the saved values that recomputations will read.
void OpsExecution::holdForReaders(OpId op)
{
    const NodeId node = graph_->nodeOf[op.value];
    if (!node.valid() || (*graph_)[node].ops.back() != op)
        return;
    for (const ValueId value : (*graph_)[node].makes) {
        Made& made = made_[value.value];
        if (saved_[value.value] && made.readers > 0)
            made.held = c10::Storage(made.original.lock());
    }
}

PackId OpsExecution::pack(const at::Tensor& tensor)
{
    if (inBackward() || nextPack_ >= trace_.packs.size())
        return {};
    const PackId pack(nextPack_++);
    const ValueId planned = valueOf(pack);
    const bool isMade = planned.valid() && (*graph_)[planned].node.valid();
    if (valueOf(tensor) != (isMade ? planned : ValueId()))
        throw CheckpointError("autograd saves another tensor than in the step that was planned (saved tensor "
                              + std::to_string(pack.value) + "): plan the step that is run");
    return pack;
}

at::Tensor OpsExecution::unpack(PackId pack, const at::Tensor& shape)
{
    const std::lock_guard lock(mutex_);
    if (const auto found = recomputations_.find(pack.value); found != recomputations_.end()) {
        const Recomputation& recomputation = *found->second;
        recomputations_.erase(found);
        for (const OpId op : recomputation.ops)
            runAgain(op);
    }
    const ValueId value = valueOf(pack);
    if (!made_[value.value].held)
        throw CheckpointError(
            "backward asks for saved tensor " + std::to_string(pack.value)
            + ", but that tensor is gone: backward differs from the planned step; plan the step that is run");
    at::Tensor tensor = onStorage(shape, made_[value.value].held);
    used(value, &Made::unpacks);
    return tensor;
}

/// Returns the storage of a value that a repeated op reads.
c10::Storage OpsExecution::storageOf(OpId reader, ValueId value) const
{
    const Made& made = made_[value.value];
    if (made.held)
        return made.held;
    auto original = (*graph_)[value].kept ? made.original.lock() : c10::intrusive_ptr<c10::StorageImpl>();
    if (!original)
        throw CheckpointError("op " + std::to_string(reader.value) + ", `" + std::string(trace_.opName(reader))
                              + "`, cannot run again: an input of the op is gone");
    return c10::Storage(std::move(original));
}

void OpsExecution::used(ValueId value, std::uint32_t Made::*use)
{
    Made& made = made_[value.value];
    --(made.*use);
    if (made.readers == 0 && made.unpacks == 0)
        made.held = c10::Storage();
}

void OpsExecution::runAgain(OpId op)
{
    const auto call = calls_.find(op.value);
    if (call == calls_.end())
        throw CheckpointError("op " + std::to_string(op.value) + " is to run again but has not run");
    takeResults(op,
                call->second.runAgain([&](ValueId value) { return storageOf(op, value); }, executed_.recomputeFlops));
    calls_.erase(call);
    ++executed_.repeatedOps;
    const JointGraph::Node& node = (*graph_)[graph_->nodeOf[op.value]];
    if (node.ops.back() != op)
        return;
    for (const ValueId value : node.makes) {
        Made& made = made_[value.value];
        if (dropped(value) && made.readers == 0 && made.unpacks == 0)
            made.held = c10::Storage();
    }
    for (const ValueId value : node.reads)
        used(value, &Made::readers);
}

/// Holds the results of a repeated op that the plan needs, or that later ops of the node may change.
void OpsExecution::takeResults(OpId op, const torch::jit::Stack& results)
{
    const auto outputs = trace_.ops.outputs[op];
    const bool goesOn = (*graph_)[graph_->nodeOf[op.value]].ops.back() != op;
    std::size_t index = 0;
    for (const c10::IValue& result : results) {
        forEachTensor(result, [&](const at::Tensor& tensor) {
            if (!isRecorded(tensor) || index == outputs.size())
                return;
            const StorageId storage = outputs[index++];
            const ValueId value = graph_->valueOf[storage.value];
            if (trace_.storages.creator[storage] != op || !value.valid() || !dropped(value))
                return;
            Made& made = made_[value.value];
            if (goesOn || made.readers > 0 || made.unpacks > 0)
                made.held = tensor.storage();
        });
    }
}

/// Measures the bytes that are held for backward. The first call, at the end of forward, does so.
void OpsExecution::measureSaved()
{
    const std::lock_guard lock(mutex_);
    if (std::exchange(measured_, true))
        return;
    std::unordered_set<const c10::StorageImpl*> counted;
    const auto count = [&](const c10::StorageImpl* storage) {
        const sim::Block* block = storage ? sim::SimulatedAllocator::blockOf(*storage) : nullptr;
        if (block && counted.insert(storage).second)
            executed_.savedBytes += roundedToBlock(block->requested);
    };
    for (std::size_t i = 0; i < kept_.size(); ++i) {
        const auto tensor = kept_[i].lock();
        const ValueId value = keptValues_[i];
        if (tensor && value.valid() && (*graph_)[value].node.valid() && !(*graph_)[value].kept)
            count(storageImpl(*tensor));
    }
    for (const Made& made : made_)
        if (made.held)
            count(made.held.unsafeGetStorageImpl());
    kept_.clear();
    keptValues_.clear();
}

} // namespace headroom
