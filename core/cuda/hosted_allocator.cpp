// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cuda/hosted_allocator.h"

#include <c10/cuda/CUDACachingAllocator.h>
#include <torch/version.h>

#include <dlfcn.h>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace headroom {
namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

/// Returns whether the code at `caller` allocates for a tensor. Memory of tensors is allocated by libtorch_cpu, also on
/// CUDA (at::detail::empty_generic), and by the function of libtorch_cuda that resizes a storage. Everything else
/// that libtorch_cuda allocates is a workspace of cuBLASLt or cuDNN.
bool isForTensor(const void* caller)
{
    static thread_local std::unordered_map<const void*, bool> known;
    const auto [entry, isNew] = known.try_emplace(caller, true);
    Dl_info info{};
    if (isNew && dladdr(caller, &info) != 0 && info.dli_fname) {
        const std::string_view file(info.dli_fname);
        const std::string_view function(info.dli_sname ? info.dli_sname : "");
        entry->second = file.find("/libtorch_cuda") == std::string_view::npos
            || function.find("resize_bytes_cuda") != std::string_view::npos;
    }
    return entry->second;
}

/// Torch's CUDA allocator with a MemoryHost: allocations for tensors on one GPU go through the host. All other calls
/// are forwarded to torch's allocator.
class HostedCudaAllocator final : public allocator::CUDAAllocator
{
    using Index = c10::DeviceIndex;
    using Pool = c10::MempoolId_t;
    using Texts = std::vector<std::string>;
    using Annotations = std::vector<std::pair<std::string, std::string>>;
    using State = std::shared_ptr<allocator::AllocatorState>;

public:
    explicit HostedCudaAllocator(CUDAAllocator& inner)
        : inner_(inner)
    {
    }

    /// Sets the host for tensors on `device`; null: none.
    void setHost(MemoryHost* host, Index device)
    {
        host_ = host;
        device_ = device;
    }

    c10::DataPtr allocate(std::size_t bytes) override
    {
        const void* const caller = __builtin_return_address(0);
        c10::DataPtr memory = inner_.allocate(bytes);
        const bool hosted = host_ && memory.get() && memory.device().index() == device_ && isForTensor(caller);
        return hosted ? host_->take(std::move(memory), bytes) : std::move(memory);
    }
    /// Null, since memory of the host must not be freed by torch's allocator, nor the reverse.
    c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
    bool is_simple_data_ptr(const c10::DataPtr& pointer) const override { return inner_.is_simple_data_ptr(pointer); }
    void copy_data(void* to, const void* from, std::size_t bytes) const override { inner_.copy_data(to, from, bytes); }

    using CUDAAllocator::recordStream;
#define HEADROOM_FORWARD(Result, name, parameters, arguments)                                                          \
    Result name parameters override                                                                                    \
    {                                                                                                                  \
        return inner_.name arguments;                                                                                  \
    }
    HEADROOM_FORWARD(bool, initialized, (), ())
    HEADROOM_FORWARD(void, emptyCache, (Pool pool), (pool))
    HEADROOM_FORWARD(c10::CachingDeviceAllocator::DeviceStats, getDeviceStats, (Index device), (device))
    HEADROOM_FORWARD(void, resetAccumulatedStats, (Index device), (device))
    HEADROOM_FORWARD(void, resetPeakStats, (Index device), (device))
    HEADROOM_FORWARD(void*, raw_alloc, (std::size_t bytes), (bytes))
    HEADROOM_FORWARD(void*, raw_alloc_with_stream, (std::size_t bytes, cudaStream_t stream), (bytes, stream))
    HEADROOM_FORWARD(void, raw_delete, (void* address), (address))
    HEADROOM_FORWARD(void, init, (int devices), (devices))
    HEADROOM_FORWARD(double, getMemoryFraction, (Index device), (device))
    HEADROOM_FORWARD(void, setMemoryFraction, (double share, Index device), (share, device))
    HEADROOM_FORWARD(std::vector<allocator::StreamSegmentSize>, getExpandableSegmentSizes, (Index device), (device))
    HEADROOM_FORWARD(void, enable, (bool value), (value))
    HEADROOM_FORWARD(bool, isEnabled, () const, ())
    HEADROOM_FORWARD(void, cacheInfo, (Index device, std::size_t* largest), (device, largest))
    HEADROOM_FORWARD(void*, getBaseAllocation, (void* address, std::size_t* bytes), (address, bytes))
    HEADROOM_FORWARD(void, recordStream, (const c10::DataPtr& pointer, c10::cuda::CUDAStream stream), (pointer, stream))
    HEADROOM_FORWARD(allocator::SnapshotInfo, snapshot, (Pool pool, bool traces), (pool, traces))
    HEADROOM_FORWARD(void, beginAllocateToPool, (Index device, Pool pool, std::function<bool(cudaStream_t)> filter),
                     (device, pool, std::move(filter)))
    HEADROOM_FORWARD(void, endAllocateToPool, (Index device, Pool pool), (device, pool))
    HEADROOM_FORWARD(void, releasePool, (Index device, Pool pool), (device, pool))
    HEADROOM_FORWARD(int, getPoolUseCount, (Index device, Pool pool), (device, pool))
    HEADROOM_FORWARD(void, createOrIncrefPool, (Index device, Pool pool, std::shared_ptr<CUDAAllocator> user),
                     (device, pool, std::move(user)))
    HEADROOM_FORWARD(void, setUseOnOOM, (Index device, Pool pool, bool use), (device, pool, use))
    HEADROOM_FORWARD(void, setNoSplit, (Index device, Pool pool), (device, pool))
    HEADROOM_FORWARD(bool, checkPoolLiveAllocations,
                     (Index device, Pool pool, const std::unordered_set<void*>& expected), (device, pool, expected))
    HEADROOM_FORWARD(allocator::ShareableHandle, shareIpcHandle, (void* address), (address))
    HEADROOM_FORWARD(std::shared_ptr<void>, getIpcDevPtr, (std::string handle), (std::move(handle)))
    HEADROOM_FORWARD(bool, isHistoryEnabled, (), ())
    HEADROOM_FORWARD(void, recordHistory,
                     (bool enabled, allocator::CreateContextFn recorder, std::size_t entries,
                      allocator::RecordContext when, bool clear, const Texts& skipped),
                     (enabled, recorder, entries, when, clear, skipped))
    HEADROOM_FORWARD(void, recordAnnotation, (const Annotations& data), (data))
    HEADROOM_FORWARD(void, pushCompileContext, (std::string & data), (data))
    HEADROOM_FORWARD(void, popCompileContext, (), ())
    HEADROOM_FORWARD(void, setUserMetadata, (const std::string& data), (data))
    HEADROOM_FORWARD(std::string, getUserMetadata, (), ())
    HEADROOM_FORWARD(void, attachOutOfMemoryObserver, (allocator::OutOfMemoryObserver observer), (std::move(observer)))
    HEADROOM_FORWARD(void, attachAllocatorTraceTracker, (allocator::AllocatorTraceTracker tracker),
                     (std::move(tracker)))
    HEADROOM_FORWARD(void, enablePeerAccess, (Index device, Index other), (device, other))
    HEADROOM_FORWARD(cudaError_t, memcpyAsync,
                     (void* to, int toDevice, const void* from, int fromDevice, std::size_t count, cudaStream_t stream,
                      bool peers),
                     (to, toDevice, from, fromDevice, count, stream, peers))
    HEADROOM_FORWARD(State, getCheckpointState, (Index device, Pool pool), (device, pool))
    HEADROOM_FORWARD(allocator::CheckpointDelta, setCheckpointPoolState, (Index device, State state),
                     (device, std::move(state)))
    HEADROOM_FORWARD(std::string, name, (), ())
#if TORCH_VERSION_MINOR >= 12
    HEADROOM_FORWARD(void, attachOomRejectionObserver, (allocator::OomRejectionObserver observer),
                     (std::move(observer)))
    HEADROOM_FORWARD(std::shared_ptr<c10::GatheredContext>, getContextForPointer, (const void* address), (address))
#endif
#if TORCH_VERSION_MINOR >= 13
    HEADROOM_FORWARD(void, markCaptureBegin, (Index device), (device))
    HEADROOM_FORWARD(void, markCaptureEnd, (Index device), (device))
    HEADROOM_FORWARD(c10::DataPtr, allocateWithAddress, (std::size_t bytes, void* address), (bytes, address))
#endif
#if TORCH_VERSION_MINOR >= 14
    HEADROOM_FORWARD(bool, supportsUserMetadata, (), ())
    HEADROOM_FORWARD(void, annotateMemory, (const void* address, const std::string& data), (address, data))
#endif
#undef HEADROOM_FORWARD

private:
    CUDAAllocator& inner_;
    MemoryHost* host_ = nullptr;
    Index device_ = 0;
};

} // namespace

void setCudaHost(MemoryHost* host, c10::DeviceIndex device)
{
    // Never removed: storages remember the allocator of the memory.
    static HostedCudaAllocator* const hosted = [] {
        auto* made = new HostedCudaAllocator(*allocator::get());
        allocator::allocator.store(made);
        c10::SetAllocator(c10::kCUDA, made);
        return made;
    }();
    hosted->setHost(host, device);
}

} // namespace headroom
