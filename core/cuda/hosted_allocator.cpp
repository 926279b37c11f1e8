// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cuda/hosted_allocator.h"

#include <dlfcn.h>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace headroom {

namespace allocator = c10::cuda::CUDACachingAllocator;

namespace {

/// Tensors get their memory from libtorch_cpu, also those of CUDA (at::detail::empty_generic), and from the one
/// function of CUDA's half that resizes a storage. What the rest of that half allocates is a workspace: cuBLASLt's,
/// cuDNN's.
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

} // namespace

void HostedCudaAllocator::setHost(MemoryHost* host, c10::DeviceIndex device)
{
    host_ = host;
    device_ = device;
}

c10::DataPtr HostedCudaAllocator::allocate(std::size_t bytes)
{
    const void* const caller = __builtin_return_address(0);
    c10::DataPtr memory = inner_.allocate(bytes);
    const bool hosted = host_ && memory.get() && memory.device().index() == device_ && isForTensor(caller);
    return hosted ? host_->take(std::move(memory), bytes) : std::move(memory);
}

c10::CachingDeviceAllocator::DeviceStats HostedCudaAllocator::getDeviceStats(c10::DeviceIndex device)
{
    return inner_.getDeviceStats(device);
}

void* HostedCudaAllocator::raw_alloc_with_stream(std::size_t bytes, cudaStream_t stream)
{
    return inner_.raw_alloc_with_stream(bytes, stream);
}

std::vector<allocator::StreamSegmentSize> HostedCudaAllocator::getExpandableSegmentSizes(c10::DeviceIndex device)
{
    return inner_.getExpandableSegmentSizes(device);
}

void* HostedCudaAllocator::getBaseAllocation(void* address, std::size_t* bytes)
{
    return inner_.getBaseAllocation(address, bytes);
}

void HostedCudaAllocator::recordStream(const c10::DataPtr& pointer, c10::cuda::CUDAStream stream)
{
    inner_.recordStream(pointer, stream);
}

allocator::SnapshotInfo HostedCudaAllocator::snapshot(c10::MempoolId_t pool, bool traces)
{
    return inner_.snapshot(pool, traces);
}

void HostedCudaAllocator::beginAllocateToPool(c10::DeviceIndex device, c10::MempoolId_t pool,
                                              std::function<bool(cudaStream_t)> filter)
{
    inner_.beginAllocateToPool(device, pool, std::move(filter));
}

void HostedCudaAllocator::endAllocateToPool(c10::DeviceIndex device, c10::MempoolId_t pool)
{
    inner_.endAllocateToPool(device, pool);
}

int HostedCudaAllocator::getPoolUseCount(c10::DeviceIndex device, c10::MempoolId_t pool)
{
    return inner_.getPoolUseCount(device, pool);
}

void HostedCudaAllocator::createOrIncrefPool(c10::DeviceIndex device, c10::MempoolId_t pool,
                                             std::shared_ptr<CUDAAllocator> allocator)
{
    inner_.createOrIncrefPool(device, pool, std::move(allocator));
}

void HostedCudaAllocator::setUseOnOOM(c10::DeviceIndex device, c10::MempoolId_t pool, bool use)
{
    inner_.setUseOnOOM(device, pool, use);
}

bool HostedCudaAllocator::checkPoolLiveAllocations(c10::DeviceIndex device, c10::MempoolId_t pool,
                                                   const std::unordered_set<void*>& expected)
{
    return inner_.checkPoolLiveAllocations(device, pool, expected);
}

allocator::ShareableHandle HostedCudaAllocator::shareIpcHandle(void* address)
{
    return inner_.shareIpcHandle(address);
}

std::shared_ptr<void> HostedCudaAllocator::getIpcDevPtr(std::string handle)
{
    return inner_.getIpcDevPtr(std::move(handle));
}

void HostedCudaAllocator::recordHistory(bool enabled, allocator::CreateContextFn recorder, std::size_t entries,
                                        allocator::RecordContext when, bool clear,
                                        const std::vector<std::string>& skipped)
{
    inner_.recordHistory(enabled, recorder, entries, when, clear, skipped);
}

void HostedCudaAllocator::recordAnnotation(const std::vector<std::pair<std::string, std::string>>& data)
{
    inner_.recordAnnotation(data);
}

void HostedCudaAllocator::attachOutOfMemoryObserver(allocator::OutOfMemoryObserver observer)
{
    inner_.attachOutOfMemoryObserver(std::move(observer));
}

void HostedCudaAllocator::attachAllocatorTraceTracker(allocator::AllocatorTraceTracker tracker)
{
    inner_.attachAllocatorTraceTracker(std::move(tracker));
}

void HostedCudaAllocator::enablePeerAccess(c10::DeviceIndex device, c10::DeviceIndex other)
{
    inner_.enablePeerAccess(device, other);
}

cudaError_t HostedCudaAllocator::memcpyAsync(void* to, int toDevice, const void* from, int fromDevice,
                                             std::size_t count, cudaStream_t stream, bool peers)
{
    return inner_.memcpyAsync(to, toDevice, from, fromDevice, count, stream, peers);
}

std::shared_ptr<allocator::AllocatorState> HostedCudaAllocator::getCheckpointState(c10::DeviceIndex device,
                                                                                   c10::MempoolId_t pool)
{
    return inner_.getCheckpointState(device, pool);
}

allocator::CheckpointDelta HostedCudaAllocator::setCheckpointPoolState(c10::DeviceIndex device,
                                                                       std::shared_ptr<allocator::AllocatorState> state)
{
    return inner_.setCheckpointPoolState(device, std::move(state));
}

#if TORCH_VERSION_MINOR >= 12
void HostedCudaAllocator::attachOomRejectionObserver(allocator::OomRejectionObserver observer)
{
    inner_.attachOomRejectionObserver(std::move(observer));
}

std::shared_ptr<c10::GatheredContext> HostedCudaAllocator::getContextForPointer(const void* address)
{
    return inner_.getContextForPointer(address);
}
#endif

#if TORCH_VERSION_MINOR >= 13
c10::DataPtr HostedCudaAllocator::allocateWithAddress(std::size_t bytes, void* address)
{
    return inner_.allocateWithAddress(bytes, address);
}
#endif

void setCudaHost(MemoryHost* host, c10::DeviceIndex device)
{
    // Storages remember it, as they do torch's own: it is in its place from the first host on.
    static HostedCudaAllocator* const hosted = [] {
        auto* made = new HostedCudaAllocator(*allocator::get());
        allocator::allocator.store(made);
        c10::SetAllocator(c10::kCUDA, made);
        return made;
    }();
    hosted->setHost(host, device);
}

} // namespace headroom
