// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/record/step_recording.h"

#include "core/base/shared_slot.h"
#include "core/device/addressed_memory.h"
#include "core/device/boxed_values.h"
#include "core/device/simulated_guard.h"
#include "core/device/simulated_state.h"
#include "core/device/source_frames.h"
#include "core/device/sparse_tensor.h"
#include "core/record/shadow_save.h"
#include "core/trace/graph_ops.h"

#include <torch/csrc/autograd/graph_task.h>

#include <atomic>
#include <utility>

namespace headroom {
namespace {

std::uint32_t nextEpoch()
{
    static std::atomic<std::uint32_t> epochs{0};
    return ++epochs;
}

/// The active recording of the process. Every intercepted thread reads the slot, also while the step's thread sets the
/// slot.
SharedSlot<StepRecording>& activeRecording()
{
    static auto* const recording = new SharedSlot<StepRecording>; // never destroyed: used after main(), too
    return *recording;
}

/// The memory of the simulated device.
class SimulatedMemory final : public RecordedMemory
{
public:
    sim::Block* blockOf(const c10::StorageImpl& storage) override { return sim::SimulatedAllocator::blockOf(storage); }
    std::vector<sim::Block*> liveBlocks() override { return sim::simulatedState().allocator.liveBlocks(); }
    void setObserver(std::shared_ptr<sim::BlockObserver> observer) override
    {
        sim::simulatedState().allocator.setObserver(std::move(observer));
    }
};

RecordedMemory& memoryOf(std::optional<DeviceMeasurement>& measurement)
{
    static SimulatedMemory simulated;
    return measurement ? measurement->memory() : simulated;
}

/// Returns the stream on which a block was allocated: only this stream reuses the memory.
std::uint32_t streamOf(RecordedMemory& memory, const sim::Block& block)
{
    const auto* const addressed = dynamic_cast<AddressedMemory*>(&memory);
    return addressed ? addressed->streamOf(block) : block.stream;
}

/// Calls the operator that gives the tensors inside of a wrapper a category. A process without Python has none.
void retypeParts(const at::Tensor& wrapper, Category category)
{
    static const auto retype = c10::Dispatcher::singleton().findSchema({"torch_headroom::retype_parts", ""});
    if (!retype)
        return;
    torch::jit::Stack stack{wrapper, static_cast<std::int64_t>(category)};
    retype->callBoxed(stack);
}

/// Whether storages that the step allocates get this category.
bool isMadeByStep(Category category)
{
    return category == Category::activation || category == Category::temporary || category == Category::optimizer;
}

bool outlivesStep(Category category)
{
    return category == Category::parameter || category == Category::buffer || category == Category::gradient
        || category == Category::optimizer;
}

} // namespace

StepRecording::StepRecording(StepInfo info, DeviceSpec device, std::shared_ptr<RealDevice> real)
    : device_(std::move(device))
    , measurement_(real ? std::optional<DeviceMeasurement>(std::move(real)) : std::nullopt)
    , memory_(memoryOf(measurement_))
    , epoch_(nextEpoch())
    , placeholdersBefore_(sim::simulatedState().placeholderValues)
{
    builder_.info = std::move(info);
}

std::shared_ptr<StepRecording> StepRecording::active()
{
    return activeRecording().get();
}

void StepRecording::activate(std::shared_ptr<StepRecording> recording)
{
    if (const auto before = active())
        before->memory_.setObserver(nullptr);
    sim::setStreamObserver(recording && !recording->measurement_ ? recording : nullptr);
    if (recording)
        recording->memory_.setObserver(recording);
    activeRecording().set(std::move(recording));
}

void StepRecording::addModule(std::string_view fqn, std::string_view type, ModuleId parent)
{
    builder_.addModule(fqn, type, parent);
    moduleNames_.emplace_back(fqn);
    if (measurement_)
        measurement_->addModule(parent);
    hasModules_ = true;
}

void StepRecording::declare(const at::Tensor& tensor, Category category)
{
    forEachDense(tensor, [&](const at::Tensor& dense) {
        if (const sim::Block* block = blockOf(dense))
            declared_.try_emplace(block, category);
    });
}

void StepRecording::start(const EndState* before)
{
    const auto categoryOf = [&](const sim::Block* block) {
        if (const auto declared = declared_.find(block); declared != declared_.end())
            return declared->second;
        if (!before)
            return Category::other;
        const auto known = before->find(block->address);
        return known == before->end() ? Category::input : known->second;
    };
    stepThread_ = std::this_thread::get_id();
    if (measurement_)
        measurement_->start(builder_);
    if (auto* const addressed = dynamic_cast<AddressedMemory*>(&memory_)) {
        if (const std::optional<Bytes> reserved = addressed->reserved())
            builder_.setReserved(*reserved);
    }
    for (sim::Block* block : memory_.liveBlocks()) {
        const Category category = categoryOf(block);
        const StorageId storage = builder_.alloc(block->requested, category, OpId());
        builder_.setStream(storage, streamOf(memory_, *block));
        builder_.setFrame(storage, frameOfStep(block->frame));
        block->tag = tagOf(storage);
    }
    declared_.clear();
    startStorages_ = static_cast<std::uint32_t>(builder_.storageCount());
    builder_.mark(Mark::stepBegin);
    for (const sim::Block* block : memory_.liveBlocks())
        if (block->memory)
            for (const std::uint32_t stream : block->memory->usedBy())
                builder_.use(tagged(block), stream);
    nodes_.startThread();
}

void StepRecording::addRegistered(ModuleId module, std::string_view name, const at::Tensor& tensor, Category category)
{
    const std::lock_guard lock(mutex_);
    builder_.addRegistered(module, name, storageOf(tensor), category);
}

bool StepRecording::addLeaf(const at::Tensor& leaf, ModuleId owner)
{
    return leaves_.try_emplace(leaf.unsafeGetTensorImpl(), WeakTensor(leaf.getIntrusivePtr()), owner).second;
}

StorageId StepRecording::tagged(const sim::Block* block) const
{
    return block ? tagged(block->tag) : StorageId();
}

StorageId StepRecording::tagged(sim::BlockTag tag) const
{
    return tag.epoch == epoch_ ? StorageId(tag.id) : StorageId();
}

sim::Block* StepRecording::blockOf(const at::Tensor& tensor) const
{
    if (!tensor.defined() || !tensor.has_storage())
        return nullptr;
    return memory_.blockOf(*tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl());
}

StorageId StepRecording::storageOf(const at::Tensor& tensor) const
{
    return tagged(blockOf(tensor));
}

void StepRecording::addStorages(const c10::IValue& value, std::vector<StorageId>& storages) const
{
    forEachTensor(value, [&](const at::Tensor& tensor) {
        forEachDense(tensor, [&](const at::Tensor& dense) {
            if (const StorageId storage = storageOf(dense))
                storages.push_back(storage);
        });
    });
}

std::vector<StorageId> StepRecording::storagesOf(at::ArrayRef<at::Tensor> tensors) const
{
    std::vector<StorageId> storages;
    for (const at::Tensor& tensor : tensors)
        addStorages(tensor, storages);
    return storages;
}

StepRecording::EndState StepRecording::endState() const
{
    const std::lock_guard lock(mutex_);
    EndState state;
    for (const sim::Block* block : memory_.liveBlocks()) {
        const StorageId storage = tagged(block);
        state.emplace(block->address, storage.valid() ? builder_.categoryOf(storage) : Category::other);
    }
    for (const auto& [save, pack] : saved_)
        state.emplace(pack.address, builder_.categoryOf(pack.storage));
    return state;
}

void StepRecording::allocated(sim::Block& block)
{
    Category category = categoryOfAllocation();
    const std::lock_guard lock(mutex_);
    if (running_ && running_->columns.phase == Phase::optimizer)
        category = Category::optimizer;
    if (running_ && running_->waits)
        beginInTrace(*running_);
    const StorageId storage = builder_.alloc(block.requested, category, openOp_);
    builder_.setStream(storage, streamOf(memory_, block));
    if (!openOp_.valid())
        builder_.setFrame(storage, frameOfStep(block.frame));
    block.tag = tagOf(storage);
}

/// Returns the row of the step for a frame of the process. Adds the frame and the frame's callers.
FrameId StepRecording::frameOfStep(FrameId frame)
{
    if (!frame.valid())
        return {};
    if (frame.value >= framesOfStep_.size())
        framesOfStep_.resize(frame.value + std::size_t{1});
    if (const FrameId known = framesOfStep_[frame.value]; known.valid())
        return known;
    const sim::SourceFrame source = sim::frameAt(frame);
    const FrameId caller = frameOfStep(source.caller); // may resize framesOfStep_
    return framesOfStep_[frame.value] = builder_.frame(caller, source.file, source.function, source.line);
}

void StepRecording::freed(sim::Block& block)
{
    const std::lock_guard lock(mutex_);
    const StorageId storage = tagged(&block);
    if (!storage.valid())
        return;
    builder_.free(storage);
    for (const PackId pack : savedLeaves_.takeStorage(storage))
        builder_.holdNoStorage(pack);
}

void StepRecording::moved(sim::Block& old, sim::Block& replacement)
{
    const std::lock_guard lock(mutex_);
    const StorageId storage = tagged(&old);
    if (!storage.valid())
        return;
    if (const StorageId both = tagged(&replacement)) // this storage recorded the moment in which both blocks existed
        builder_.free(both);
    builder_.resize(storage, replacement.requested, streamOf(memory_, replacement));
    replacement.tag = old.tag;
    old.tag = {};
}

void StepRecording::used(const sim::Block& block, std::uint32_t stream)
{
    const std::lock_guard lock(mutex_);
    if (const StorageId storage = tagged(&block))
        builder_.use(storage, stream);
}

void StepRecording::reserved(Bytes bytes)
{
    const std::lock_guard lock(mutex_);
    if (running_ && running_->waits) // the segment is reserved for the op that runs
        beginInTrace(*running_);
    builder_.setReserved(bytes);
}

void StepRecording::refused(Bytes requested, Bytes deviceFree, const sim::FreePieces& pieces)
{
    const Situation where = situation();
    const std::lock_guard lock(mutex_);
    StepTraceBuilder::Op failure;
    if (running_) {
        failure = running_->columns;
        failure.frame = frameOfStep(running_->frame);
        interrupt(*running_);
    } else {
        // No place() here: place() may wait for Python to name a node, and the device's allocator is locked.
        failure.phase = phaseOf(where);
        if (hasModules_)
            failure.module = calls_.empty() ? ModuleId(0) : calls_.back().module;
    }
    failure.forwardOp = {};
    FreePieces free{static_cast<std::uint32_t>(pieces.count), {}};
    for (const auto& [bytes, beside, tag] : pieces.largest) {
        StorageId storage = tagged(tag);
        for (const auto& [save, pack] : saved_)
            if (beside != 0 && pack.memory && pack.memory->place() == beside)
                storage = pack.storage; // autograd alone may hold the block
        free.largest.push_back({bytes, storage});
    }
    builder_.endOp(builder_.outOfMemory(failure, requested, deviceFree, free), {});
    opModules_.push_back(failure.module);
    opRegions_.push_back(failure.module);
    opFrames_.emplace_back();
}

StepRecording::Pack StepRecording::pack(const at::Tensor& tensor)
{
    const std::lock_guard lock(mutex_);
    Pack pack;
    pack.storage = storageOf(tensor);
    const sim::Block* block = blockOf(tensor);
    // CUDA graph trees look up which tensors of a graph's pool are alive: autograd holds such tensors as on a GPU.
    pack.shadowed = pack.storage.valid() && pack.storage.value >= startStorages_ && poolOfPlace(block->stream) == 0;
    if (pack.shadowed) {
        pack.address = block->address;
        pack.memory = block->memory;
    }
    pack.node = NodeNumber::last();
    pack.id = builder_.pack(pack.storage, savingOp(pack.storage));
    return pack;
}

/// Returns the op for which autograd saves a tensor now: a node saves inputs before the op begins, results afterwards.
/// An op that saves a tensor of another device may not be part of the step.
OpId StepRecording::savingOp(StorageId storage) const
{
    const auto ops = static_cast<std::uint32_t>(builder_.opCount());
    if (!storage.valid())
        return {};
    return nodes_.nodesWait() ? OpId(ops) : ops > 0 ? OpId(ops - 1) : OpId();
}

void StepRecording::packLeaf(const at::Tensor& leaf)
{
    const std::lock_guard lock(mutex_);
    SavedLeaves::Leaf saved;
    saved.storage = storageOf(leaf);
    saved.op = savingOp(saved.storage);
    saved.afterOp = !nodes_.nodesWait();
    saved.tensor = leaf.unsafeGetTensorImpl();
    saved.node = NodeNumber::last();
    saved.pack = builder_.pack(saved.storage, saved.op);
    savedLeaves_.add(saved);
}

void StepRecording::nodeIsMade(const NodePtr& node)
{
    const std::lock_guard lock(mutex_);
    savedLeaves_.nodeIsMade(node);
}

void StepRecording::leafIsAsked(const at::TensorBase& leaf, const torch::autograd::Node& node)
{
    const bool isPython = isPythonNode(node);
    const int task = torch::autograd::get_current_graph_task_id();
    const std::lock_guard lock(mutex_);
    const OpId op = nodes_.opOf(node.thread_id(), node.sequence_nr());
    const PackId pack = savedLeaves_.unpackedBy(node, isPython, op, leaf.unsafeGetTensorImpl(), task);
    if (!pack.valid())
        return;
    builder_.unpack(pack, passOf(task));
    builder_.unpackEnd(pack); // the leaf itself holds the storage
}

void StepRecording::nodeHasRun(const torch::autograd::Node& node)
{
    const std::lock_guard lock(mutex_);
    releaseLeaves(savedLeaves_.takeOf(node));
}

void StepRecording::releaseLeaves(const std::vector<PackId>& packs)
{
    for (const PackId pack : packs)
        builder_.release(pack);
}

void StepRecording::unpack(const Pack& pack)
{
    const int task = torch::autograd::get_current_graph_task_id();
    const std::lock_guard lock(mutex_);
    builder_.unpack(pack.id, passOf(task));
    if (!pack.shadowed)
        builder_.unpackEnd(pack.id); // the tensor itself was saved: the storage's free event shows the hold
}

void StepRecording::unpackEnd(const Pack& pack)
{
    const std::lock_guard lock(mutex_);
    builder_.unpackEnd(pack.id);
}

void StepRecording::release(const Pack& pack)
{
    // A pack is released with the graph, after the pack's node has run, or by the node: nodes of torch.compile's graphs
    // drop all saved tensors.
    const NodePtr running = torch::autograd::get_current_node();
    const bool dropsAll = !running || NodeNumber::of(*running) == pack.node;
    const std::lock_guard lock(mutex_);
    builder_.release(pack.id);
    if (dropsAll)
        releaseLeaves(savedLeaves_.takeOf(pack.node));
}

void StepRecording::remember(ShadowSave& save, const Pack& pack)
{
    const std::lock_guard lock(mutex_);
    saved_.emplace(&save, pack);
}

void StepRecording::forget(ShadowSave& save)
{
    const std::lock_guard lock(mutex_);
    saved_.erase(&save);
}

void StepRecording::giveBackSaved()
{
    const std::lock_guard lock(mutex_);
    std::unordered_map<const void*, c10::Storage> storages;
    for (const auto& [save, pack] : saved_)
        save->holdStorage(storages[pack.address], tagOf(pack.storage));
    saved_.clear();
}

void StepRecording::retype(const at::Tensor& tensor, Category category)
{
    if (tensor.defined() && tensor.is_sparse())
        return forEachDense(tensor, [&](const at::Tensor& dense) { retype(dense, category); });
    {
        const std::lock_guard lock(mutex_);
        if (const StorageId storage = storageOf(tensor); storage.valid()) {
            if (builder_.categoryOf(storage) != category)
                builder_.retype(storage, category);
            return;
        }
    }
    if (tensor.defined() && tensor.key_set().has(c10::DispatchKey::Python))
        retypeParts(tensor, category);
}

void StepRecording::dataIsReplaced(const at::Tensor& tensor, const at::Tensor& data)
{
    const std::lock_guard lock(mutex_);
    const StorageId next = storageOf(data);
    if (!next.valid() || !isMadeByStep(builder_.categoryOf(next)))
        return;
    const StorageId now = storageOf(tensor);
    // A registered parameter without memory on the device was moved to the host before.
    const bool isRegistered = leaves_.contains(tensor.unsafeGetTensorImpl());
    const Category category = now.valid() ? builder_.categoryOf(now)
        : isRegistered                    ? Category::parameter
                                          : Category::activation;
    if (outlivesStep(category) && builder_.categoryOf(next) != category)
        builder_.retype(next, category);
}

void StepRecording::parameterIsMade(const at::Tensor& parameter)
{
    const std::lock_guard lock(mutex_);
    const StorageId storage = storageOf(parameter);
    if (storage.valid() && isMadeByStep(builder_.categoryOf(storage)))
        builder_.retype(storage, Category::parameter);
}

void StepRecording::setPhase(Phase phase)
{
    const std::lock_guard lock(mutex_);
    phase_ = phase;
}

void StepRecording::setOwnUpdate(bool updates)
{
    const std::lock_guard lock(mutex_);
    ownUpdate_ = updates;
}

void StepRecording::setRecomputes(bool recomputes)
{
    recomputations_ += recomputes ? 1 : -1;
}

void StepRecording::setCompiles(bool compiles)
{
    compiles_ = compiles;
}

void StepRecording::setOrigin(std::string_view path, bool inside)
{
    const std::lock_guard lock(mutex_);
    origin_ = inside ? std::optional<std::string>(path) : std::nullopt;
}

void StepRecording::setBuildsBackwardGraph(bool builds)
{
    buildsBackwardGraph_ = builds;
}

void StepRecording::mark(Mark mark)
{
    // Outside of mutex_: a thread that holds the lock of the device's allocator may wait for mutex_.
    const Bytes nonPyTorch = measurement_ ? measurement_->nonPyTorch() : 0;
    const std::lock_guard lock(mutex_);
    if (measurement_)
        measurement_->countNonPyTorch(builder_, nonPyTorch);
    releaseLeaves(savedLeaves_.takeOfDestroyed());
    builder_.mark(mark);
    if (mark == Mark::forwardEnd)
        phase_ = Phase::backward;
    else if (mark == Mark::backwardEnd)
        phase_ = Phase::forward;
}

Result<StepTracePtr> StepRecording::finish()
{
    if (measurement_)
        measurement_->stop();
    const std::lock_guard lock(mutex_);
    if (measurement_)
        builder_.info.measured = measurement_->addTimes(builder_, opModules_);
    builder_.info.placeholderValues += sim::simulatedState().placeholderValues - placeholdersBefore_;
    for (const auto& [call, storage] : heldArguments_.held())
        builder_.addArgument(call, storage);
    if (opsOfOtherThreads_ > 0)
        builder_.info.remarks.push_back(
            "another thread than the step's ran ops (" + std::to_string(opsOfOtherThreads_)
            + " or more): the memory counts, but the step has neither times nor a plan of such "
              "ops");
    return builder_.finish();
}

} // namespace headroom
