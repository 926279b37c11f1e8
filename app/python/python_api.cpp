// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/python/python_api.h"

#include "core/base/json_text.h"
#include "core/base/try.h"
#include "core/cost/device_specs.h"
#include "core/device/allocator_settings.h"
#include "core/device/card_limit.h"
#include "core/device/cuda_device.h"
#include "core/device/deferred_fill.h"
#include "core/device/known_storage.h"
#include "core/device/memory_pools.h"
#include "core/device/meta_call.h"
#include "core/device/placeholder_values.h"
#include "core/device/simulated_device.h"
#include "core/device/simulated_hooks.h"
#include "core/device/simulated_state.h"
#include "core/device/stream_observer.h"
#include "core/record/captured_graph.h"
#include "core/record/interceptor.h"
#include "core/trace/graph_ops.h"

#include <nlohmann/json.hpp>
#include <torch/csrc/profiler/combined_traceback.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

namespace headroom::python {
namespace {

/// The simulated card. A process has at most one, since libtorch has a single allocator and a single kernel for each
/// op.
std::optional<DeviceSpec>& simulatedCard()
{
    static std::optional<DeviceSpec> card;
    return card;
}

Status simulate(std::string_view gpu, std::string_view device)
{
    ASSIGN_OR_RETURN(const auto spec, findDeviceSpec(gpu));
    if (device != "sim" && device != "cuda")
        return badInput("unknown device '" + std::string(device) + "'; known are cuda and sim");
    if (simulatedCard() && simulatedCard()->name != spec.name)
        return badInput("this process simulates " + simulatedCard()->name + " already; start another process for "
                        + spec.name);
    if (simulatedCard())
        return {};
    if (device == "sim") {
        sim::initialize(spec);
        sim::keepValues();
    } else if (const Status simulated = sim::simulateCuda(spec); !simulated) {
        return simulated;
    }
    interceptThread();
    simulatedCard() = spec;
    return {};
}

at::Tensor tensorOf(void* data)
{
    return at::Tensor(c10::intrusive_ptr<c10::TensorImpl>::reclaim_copy(static_cast<c10::TensorImpl*>(data)));
}

nlohmann::json describe(const DeviceSpec& spec)
{
    const GpuFacts facts = gpuFactsOf(spec);
    return {{"name", spec.name},
            {"title", spec.title},
            {"clock_khz", facts.clockKHz},
            {"memory_clock_khz", facts.memoryClockKHz},
            {"memory_bits", facts.busWidth},
            {"memory_bytes", spec.memory},
            {"compute_capability", spec.computeCapability},
            {"multiprocessors", spec.multiprocessors},
            {"l2_bytes", spec.l2},
            {"gigabytes_per_second", spec.gigabytesPerSecond},
            {"float32_flops", spec.float32Flops},
            {"tensor_float32_flops", spec.tensorFloat32Flops},
            {"half_flops", spec.halfFlops}};
}

/// The frames of stacks; a snapshot has each frame once. Frames of Headroom are left out: on the card CUDA's kernels
/// and allocator run in place of Headroom.
class Frames
{
public:
    /// Returns the stack's list of indices.
    nlohmann::json of(const sim::AllocationHistory::Stack& stack)
    {
        if (!stack)
            return nlohmann::json::array();
        const auto [entry, isNew] = known_.try_emplace(stack.get());
        if (isNew) {
            const torch::SymbolizedTracebacks read = torch::symbolize({torch::getCapturedTracebackFromContext(stack)});
            for (const std::uint64_t frame : read.tracebacks.front())
                if (read.all_frames[frame].funcname.find("headroom::") == std::string::npos)
                    entry->second.push_back(add(read.all_frames[frame]));
        }
        return entry->second;
    }
    const nlohmann::json& all() const { return frames_; }

private:
    std::size_t add(const torch::unwind::Frame& frame)
    {
        const auto key = std::tuple(frame.filename, frame.funcname, frame.lineno);
        const auto [number, isNew] = numbers_.try_emplace(key, frames_.size());
        if (isNew)
            frames_.push_back({{"name", frame.funcname}, {"filename", frame.filename}, {"line", frame.lineno}});
        return number->second;
    }

    std::unordered_map<const c10::GatheredContext*, std::vector<std::size_t>> known_;
    std::map<std::tuple<std::string, std::string, std::uint64_t>, std::size_t> numbers_;
    nlohmann::json frames_ = nlohmann::json::array();
};

nlohmann::json segmentJson(const CachingAllocator::SegmentState& segment, const sim::SimulatedAllocator::Snapshot& all,
                           Frames& frames)
{
    const auto stackOf = [&](const auto& stacks, CachingAllocator::Block address) {
        const auto found = stacks.find(address);
        return frames.of(found == stacks.end() ? nullptr : found->second);
    };
    Bytes total = 0;
    Bytes allocated = 0;
    Bytes active = 0;
    Bytes requested = 0;
    auto blocks = nlohmann::json::array();
    for (const CachingAllocator::Segment::Part& part : segment.parts) {
        const bool isActive = part.requested > 0;
        total += part.size;
        active += isActive ? part.size : 0;
        allocated += isActive && !part.awaitsFree ? part.size : 0;
        requested += part.requested;
        const char* const state = !isActive ? "inactive" : part.awaitsFree ? "active_pending_free" : "active_allocated";
        blocks.push_back({{"address", part.address},
                          {"size", part.size},
                          {"requested_size", part.requested},
                          {"state", state},
                          {"stack", stackOf(all.blockStacks, part.address)}});
    }
    return {{"address", segment.address},
            {"total_size", total},
            {"allocated_size", allocated},
            {"active_size", active},
            {"requested_size", requested},
            {"stream", streamOfPlace(static_cast<std::uint32_t>(segment.stream))},
            {"pool", poolOfPlace(static_cast<std::uint32_t>(segment.stream))},
            {"segment_type", segment.small ? "small" : "large"},
            {"is_expandable", segment.expandable},
            {"stack", stackOf(all.segmentStacks, segment.address)},
            {"blocks", blocks}};
}

std::string snapshotText(const sim::SimulatedAllocator::Snapshot& snapshot)
{
    Frames frames;
    auto segments = nlohmann::json::array();
    for (const CachingAllocator::SegmentState& segment : snapshot.segments)
        segments.push_back(segmentJson(segment, snapshot, frames));
    auto entries = nlohmann::json::array();
    for (const sim::AllocationHistory::Entry& entry : snapshot.entries)
        entries.push_back({{"action", allocatorActionNames.at(static_cast<std::size_t>(entry.action))},
                           {"addr", entry.address},
                           {"size", entry.size},
                           {"stream", streamOfPlace(entry.place)},
                           {"pool", poolOfPlace(entry.place)},
                           {"time_us", entry.microseconds},
                           {"metadata", entry.metadata},
                           {"stack", frames.of(entry.stack)}});
    return jsonText({{"segments", segments}, {"entries", entries}, {"frames", frames.all()}});
}

} // namespace

std::string& lastError()
{
    static thread_local std::string message;
    return message;
}

int answer(const Status& status)
{
    lastError() = status ? "" : status.error().message;
    if (status)
        return 0;
    return static_cast<int>(status.error().kind);
}

} // namespace headroom::python

using namespace headroom;

const char* headroom_last_error()
{
    return python::lastError().c_str();
}

const char* headroom_version()
{
    return HEADROOM_VERSION;
}

const char* headroom_gpu_name(const char* text)
{
    static thread_local std::string name;
    name = gpuName(text);
    return name.c_str();
}

const char* headroom_devices()
{
    static const std::string text = [] {
        nlohmann::json devices = nlohmann::json::array();
        for (const DeviceSpec& spec : deviceSpecs())
            devices.push_back(python::describe(spec));
        return jsonText(devices);
    }();
    return text.c_str();
}

void headroom_claim_cuda()
{
    sim::claimCuda();
}

void headroom_join_job(std::int64_t ranks_per_node)
{
    sim::setRanksPerNode(ranks_per_node);
    sim::joinJob();
}

void headroom_process_group(const char* name, const std::uint32_t* ranks, std::int64_t count)
{
    sim::addProcessGroup(name, {ranks, ranks + count});
}

void headroom_intercept_thread()
{
    interceptThread();
}

void headroom_defer_fills()
{
    sim::enableDeferredFills();
    sim::noteHostReads();
}

int headroom_make_values(void* tensor, int keepsAddress)
{
    return python::guarded([&] {
        const at::Tensor read = python::tensorOf(tensor);
        if (read.unsafeGetTensorImpl()->has_symbolic_sizes_strides()) // of a trace, without values
            return;
        keepsAddress != 0 ? sim::exposeValues(read) : sim::makeValues(read);
        sim::readOnHost(read);
    });
}

int headroom_known_integers(void* tensor, std::int64_t* values)
{
    const at::Tensor onDevice = python::tensorOf(tensor);
    if (!at::isIntegralType(onDevice.scalar_type(), /*includeBool=*/false)
        || sim::knownPart(onDevice) != sim::Known::all)
        return 0;
    const c10::impl::ExcludeDispatchKeyGuard guard(sim::keysAboveBackend());
    const at::Tensor known = sim::valuesOf(onDevice).to(at::kLong).contiguous();
    std::copy_n(known.const_data_ptr<std::int64_t>(), known.numel(), values);
    return 1;
}

int headroom_simulate(const char* gpu, const char* device)
{
    return python::guarded([&] { return python::simulate(gpu, device); });
}

int headroom_await_autograd()
{
    return python::guarded([] { sim::awaitAutogradThread(); });
}

int headroom_begin_returning_gradients()
{
    return python::guarded([] { sim::beginReturningGradients(); });
}

int headroom_end_returning_gradients()
{
    return python::guarded([] { sim::endReturningGradients(); });
}

void headroom_memory(HeadroomMemory* memory)
{
    const sim::MemoryStats stats = sim::memoryStats();
    const auto& card = python::simulatedCard();
    *memory = {stats.live,
               stats.peak,
               stats.blocks,
               stats.allocations,
               stats.allocated,
               stats.outOfMemories,
               stats.requested,
               stats.requestedPeak,
               stats.reserved,
               stats.reservedPeak,
               stats.segments,
               card ? card->memory : 0,
               card ? sim::usableOfCard() : 0};
}

void headroom_enlarge_card(double size)
{
    sim::limitCard(size);
}

void headroom_set_memory_fraction(double fraction)
{
    sim::setMemoryFraction(fraction);
}

int headroom_apply_allocator_settings()
{
    return python::guarded([] { sim::applyAllocatorSettings(); });
}

const char* headroom_allocator_actions()
{
    static const std::string text = [] {
        std::string names;
        for (const char* name : allocatorActionNames)
            names.append(names.empty() ? "" : " ").append(name);
        return names;
    }();
    return text.c_str();
}

const char* headroom_allocator_settings()
{
    static thread_local std::string text;
    text = allocatorSettings(sim::simulatedState().allocator.rules());
    return text.c_str();
}

void headroom_on_out_of_memory(void (*tell)(std::int64_t, std::int64_t, std::int64_t))
{
    sim::SimulatedAllocator::onOutOfMemory(tell);
}

void headroom_start_history(int stacks, int cpp, std::int64_t maxEntries, std::uint32_t skipped, int clears)
{
    sim::simulatedState().allocator.startHistory({static_cast<sim::AllocationHistory::Stacks>(stacks),
                                                  static_cast<std::size_t>(maxEntries), skipped, clears != 0,
                                                  cpp != 0});
}

void headroom_register_pinned(const void* address, std::int64_t bytes)
{
    sim::registerPinned(address, static_cast<std::size_t>(bytes));
}

void headroom_unregister_pinned(const void* address)
{
    sim::unregisterPinned(address);
}

void headroom_stop_history()
{
    sim::simulatedState().allocator.stopHistory();
}

int headroom_resize_storage(void* storage, std::int64_t bytes)
{
    return python::guarded([&] { sim::resizeStorage(*static_cast<c10::StorageImpl*>(storage), bytes); });
}

void headroom_record_stream(void* storage, std::uint32_t stream)
{
    sim::simulatedState().allocator.recordStream(static_cast<c10::StorageImpl*>(storage)->data_ptr(), stream);
}

void headroom_empty_cache()
{
    sim::emptyCache();
}

void headroom_begin_pool(std::uint32_t pool, int onStream)
{
    sim::beginAllocateToPool(pool, onStream ? sim::PoolUser::stream : sim::PoolUser::thread);
}

void headroom_end_pool(std::uint32_t pool)
{
    sim::endAllocateToPool(pool);
}

void headroom_give_up_pool(std::uint32_t pool)
{
    sim::giveUpPool(pool);
}

void* headroom_graph_new()
{
    return new CapturedGraph;
}

void headroom_graph_delete(void* graph)
{
    delete static_cast<CapturedGraph*>(graph);
}

void headroom_graph_begin(void* graph)
{
    static_cast<CapturedGraph*>(graph)->begin();
}

void headroom_graph_end(void* graph)
{
    static_cast<CapturedGraph*>(graph)->end();
}

void headroom_graph_forget(void* graph)
{
    static_cast<CapturedGraph*>(graph)->forget();
}

int headroom_graph_replay(void* graph)
{
    return python::guarded([&] { static_cast<CapturedGraph*>(graph)->replay(); });
}

void headroom_memory_stats(std::int64_t* numbers)
{
    const CachingAllocator::Counters counters = sim::simulatedState().allocator.counters();
    const auto add = [&](const CachingAllocator::Counter& counter) {
        for (const std::int64_t number : {counter.current, counter.peak, counter.allocated, counter.freed})
            *numbers++ = number;
    };
    for (const CachingAllocator::PoolCounters& pool : counters.pools)
        for (const auto& counter : {pool.allocation, pool.segment, pool.active, pool.inactiveSplit, pool.allocatedBytes,
                                    pool.reservedBytes, pool.activeBytes, pool.inactiveSplitBytes, pool.requestedBytes})
            add(counter);
    add(counters.oversizeAllocations);
    add(counters.oversizeSegments);
    for (const std::int64_t number : {counters.retries, counters.synchronizations, counters.outOfMemories})
        *numbers++ = number;
}

const char* headroom_memory_snapshot(int isNoted)
{
    static thread_local std::string text;
    text = python::snapshotText(sim::simulatedState().allocator.snapshot(isNoted != 0));
    return text.c_str();
}

void headroom_set_memory_metadata(const char* text)
{
    sim::simulatedState().allocator.setMetadata(text);
}

const char* headroom_memory_metadata()
{
    static thread_local std::string text;
    text = sim::simulatedState().allocator.metadata();
    return text.c_str();
}

void headroom_reset_accumulated()
{
    sim::simulatedState().allocator.resetAccumulated();
}

void headroom_reset_peak()
{
    sim::resetPeak();
}

std::int64_t headroom_placeholder_values()
{
    return sim::placeholderValues();
}

void headroom_on_placeholder_value(void (*tell)(int))
{
    static std::atomic<void (*)(int)> told;
    told = tell;
    sim::onPlaceholderValue(tell ? [](sim::Placeholder what) {
        if (auto* const callback = told.load())
            callback(static_cast<int>(what));
    } : static_cast<void (*)(sim::Placeholder)>(nullptr));
}

const char* headroom_fallbacks()
{
    static thread_local std::string text;
    nlohmann::json fallbacks = nlohmann::json::array();
    for (const sim::Fallback& fallback : sim::fallbacks())
        fallbacks.push_back({{"op", fallback.op}, {"count", fallback.count}});
    text = jsonText(fallbacks);
    return text.c_str();
}
