// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/record/captured_graph.h"

#include "core/device/boxed_values.h"
#include "core/device/memory_pools.h"
#include "core/device/simulated_device.h"
#include "core/device/simulated_guard.h"
#include "core/device/simulated_state.h"
#include "core/record/shadow_save.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/Event.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <atomic>
#include <unordered_map>
#include <utility>

namespace headroom {
namespace {

std::atomic<CapturedGraph*> capturing{nullptr};
std::atomic<std::uint64_t> replayCount{0};
thread_local bool replaying = false;

class ReplayScope
{
public:
    ReplayScope() noexcept { replaying = true; }
    ~ReplayScope() { replaying = false; }
    ReplayScope(const ReplayScope&) = delete;
    ReplayScope& operator=(const ReplayScope&) = delete;
};

/// Makes stream `id` the current stream. The new stream waits for the stream before.
void continueOn(c10::StreamId id)
{
    const c10::impl::DeviceGuardImplInterface& guard = sim::simulatedGuard();
    const c10::Stream before = guard.getStream(sim::device());
    if (before.id() == id)
        return;
    const c10::Stream after(c10::Stream::UNSAFE, before.device(), id);
    c10::Event event(before.device_type());
    event.record(before);
    event.block(after);
    guard.exchangeStream(after);
}

} // namespace

CapturedGraph::Memory::Memory(const c10::Storage& storage)
    : original(storage.getWeakStorageImpl())
    , held(sim::SimulatedAllocator::blockOf(*storage.unsafeGetStorageImpl())->memory)
    , address(sim::SimulatedAllocator::blockOf(*storage.unsafeGetStorageImpl())->address)
{
}

c10::Storage CapturedGraph::Memory::storage() const
{
    return again ? again : c10::Storage(original.lock());
}

/// Puts the memory of `made` into the original storage while the original is alive: the program sees that storage. The
/// address is the address of the capture.
void CapturedGraph::Memory::write(const c10::Storage& made)
{
    sim::SimulatedAllocator::blockOf(*made.unsafeGetStorageImpl())->address = address;
    c10::DataPtr data = made.unsafeGetStorageImpl()->set_data_ptr({nullptr, made.device()});
    const c10::DeleterFnPtr deleter = data.get_deleter();
    data = {address, data.release_context(), deleter, made.device()};
    const auto seen = original.lock();
    c10::StorageImpl& written = seen ? *seen : *made.unsafeGetStorageImpl();
    written.set_nbytes(made.nbytes());
    written.set_data_ptr_noswap(std::move(data));
    again = seen ? c10::Storage() : made;
}

void CapturedGraph::Memory::free()
{
    again = {};
    if (const auto seen = original.lock())
        sim::simulatedState().allocator.resize(*seen, 0);
}

CapturedGraph::~CapturedGraph()
{
    CapturedGraph* self = this;
    capturing.compare_exchange_strong(self, nullptr);
}

void CapturedGraph::begin()
{
    pool_ = sim::poolOfStream(sim::currentStreamNumber());
    calls_.clear();
    freedBefore_.clear();
    capturing = this;
}

void CapturedGraph::end()
{
    capturing = nullptr;
    const std::lock_guard lock(mutex_);
    noteFreed();
}

/// Returns the memory that ops of graphs created and that has not been freed yet.
std::vector<CapturedGraph::MemoryPtr>& CapturedGraph::madeAndLive()
{
    static auto* const memories = new std::vector<MemoryPtr>;
    return *memories;
}

/// Finds the memory by address: an address is unique while the process lives.
CapturedGraph::MemoryPtr CapturedGraph::memoryOf(const at::Tensor& tensor)
{
    static auto* const known = new std::unordered_map<void*, std::weak_ptr<Memory>>;
    const sim::Block* const block
        = tensor.has_storage() ? sim::SimulatedAllocator::blockOf(*tensor.storage().unsafeGetStorageImpl()) : nullptr;
    if (!block)
        return nullptr;
    std::weak_ptr<Memory>& entry = (*known)[block->address];
    MemoryPtr memory = entry.lock();
    if (!memory)
        entry = memory = std::make_shared<Memory>(tensor.storage());
    return memory;
}

std::size_t CapturedGraph::add(const c10::OperatorHandle& op, const torch::jit::Stack& stack)
{
    const std::lock_guard lock(mutex_);
    noteFreed();
    const std::span<const c10::IValue> arguments = argumentsOf(op, stack);
    Call call{op, sim::currentStreamNumber(), {arguments.begin(), arguments.end()}, {}, {}, {}};
    for (c10::IValue& argument : call.arguments)
        mapTensors(argument, [&](const at::Tensor& tensor) {
            call.memories.push_back(memoryOf(tensor));
            return call.memories.back() ? shapeOf(tensor) : tensor;
        });
    calls_.push_back(std::move(call));
    return calls_.size() - 1;
}

void CapturedGraph::addResults(std::size_t number, const torch::jit::Stack& stack)
{
    const std::lock_guard lock(mutex_);
    Call& call = calls_[number];
    const auto isIn = [](const std::vector<MemoryPtr>& list, const MemoryPtr& memory) {
        return std::ranges::find(list, memory) != list.end();
    };
    for (const c10::IValue& result : resultsOf(call.op, stack))
        forEachTensor(result, [&](const at::Tensor& tensor) {
            MemoryPtr memory = memoryOf(tensor);
            if (isIn(call.memories, memory) || isIn(call.made, memory))
                memory = nullptr;
            if (memory)
                madeAndLive().push_back(memory);
            call.made.push_back(std::move(memory));
        });
}

/// Notes which memory of graphs was freed since the previous op.
void CapturedGraph::noteFreed()
{
    std::erase_if(madeAndLive(), [&](const MemoryPtr& memory) {
        if (!memory->held.expired())
            return false;
        (calls_.empty() ? freedBefore_ : calls_.back().freed).push_back(memory);
        return true;
    });
}

void CapturedGraph::run(const c10::OperatorHandle& op, torch::jit::Stack& stack, c10::function_ref<void()> run)
{
    CapturedGraph* const graph = capturing;
    if (!graph || sim::poolOfStream(sim::currentStreamNumber()) != graph->pool_
        || op.schema().name().starts_with("torch_headroom::")) {
        run();
        return;
    }
    const std::size_t call = graph->add(op, stack);
    run();
    graph->addResults(call, stack);
}

void CapturedGraph::run(const Call& call)
{
    torch::jit::Stack stack;
    auto memory = call.memories.begin();
    for (c10::IValue argument : call.arguments) {
        mapTensors(argument, [&](const at::Tensor& shape) {
            const MemoryPtr& used = *memory++;
            if (!used)
                return shape;
            const c10::Storage storage = used->storage();
            TORCH_CHECK(
                storage, "a replayed CUDA graph runs ", call.op.schema().name(),
                " on memory that the program has freed since the capture: keep the tensor as long as the graph");
            return onStorage(shape, storage);
        });
        stack.push_back(std::move(argument));
    }
    call.op.callBoxed(stack);
    auto made = call.made.begin();
    for (const c10::IValue& result : stack)
        forEachTensor(result, [&](const at::Tensor& tensor) {
            if (const MemoryPtr& written = *made++)
                written->write(tensor.storage());
        });
    stack.clear();
    for (const MemoryPtr& freed : call.freed)
        freed->again = {};
}

void CapturedGraph::forget()
{
    for (const Call& call : calls_)
        for (const MemoryPtr& memory : call.made)
            if (memory)
                memory->free();
}

bool CapturedGraph::isReplayed() noexcept
{
    return replaying;
}

std::uint64_t CapturedGraph::replays() noexcept
{
    return replayCount;
}

void CapturedGraph::replay()
{
    ++replayCount;
    const at::AutoDispatchBelowAutograd below;
    const ReplayScope scope;
    for (const MemoryPtr& memory : freedBefore_)
        memory->again = {};
    const c10::Stream current = sim::simulatedGuard().getStream(sim::device());
    for (const Call& call : calls_) {
        continueOn(call.stream);
        run(call);
    }
    continueOn(current.id());
}

} // namespace headroom
