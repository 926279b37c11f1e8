// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/device/memory_host.h"

#include <c10/cuda/CUDACachingAllocator.h>
#include <torch/version.h>

namespace headroom {

/// Torch's CUDA allocator with a MemoryHost: the memory of tensors on one GPU goes through the host, everything else is
/// passed to the allocator. Workspaces, which libraries allocate without a tensor, bypass the host: no plan can know
/// their sizes.
class HostedCudaAllocator final : public c10::cuda::CUDACachingAllocator::CUDAAllocator
{
public:
    explicit HostedCudaAllocator(c10::cuda::CUDACachingAllocator::CUDAAllocator& inner)
        : inner_(inner)
    {
    }

    /// Sets the host for tensors on `device`; null: none.
    void setHost(MemoryHost* host, c10::DeviceIndex device);

    c10::DataPtr allocate(std::size_t bytes) override;
    /// Null, since memory allocated in one way must not be freed in the other.
    c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
    bool is_simple_data_ptr(const c10::DataPtr& pointer) const override { return inner_.is_simple_data_ptr(pointer); }
    void copy_data(void* to, const void* from, std::size_t bytes) const override { inner_.copy_data(to, from, bytes); }

    bool initialized() override { return inner_.initialized(); }
    void emptyCache(c10::MempoolId_t pool) override { inner_.emptyCache(pool); }
    c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override;
    void resetAccumulatedStats(c10::DeviceIndex device) override { inner_.resetAccumulatedStats(device); }
    void resetPeakStats(c10::DeviceIndex device) override { inner_.resetPeakStats(device); }

    void* raw_alloc(std::size_t bytes) override { return inner_.raw_alloc(bytes); }
    void* raw_alloc_with_stream(std::size_t bytes, cudaStream_t stream) override;
    void raw_delete(void* address) override { inner_.raw_delete(address); }
    void init(int devices) override { inner_.init(devices); }
    double getMemoryFraction(c10::DeviceIndex device) override { return inner_.getMemoryFraction(device); }
    void setMemoryFraction(double share, c10::DeviceIndex device) override { inner_.setMemoryFraction(share, device); }
    std::vector<c10::cuda::CUDACachingAllocator::StreamSegmentSize>
    getExpandableSegmentSizes(c10::DeviceIndex device) override;
    void enable(bool value) override { inner_.enable(value); }
    bool isEnabled() const override { return inner_.isEnabled(); }
    void cacheInfo(c10::DeviceIndex device, std::size_t* largest) override { inner_.cacheInfo(device, largest); }
    void* getBaseAllocation(void* address, std::size_t* bytes) override;
    using CUDAAllocator::recordStream;
    void recordStream(const c10::DataPtr& pointer, c10::cuda::CUDAStream stream) override;
    c10::cuda::CUDACachingAllocator::SnapshotInfo snapshot(c10::MempoolId_t pool, bool traces) override;

    void beginAllocateToPool(c10::DeviceIndex device, c10::MempoolId_t pool,
                             std::function<bool(cudaStream_t)> filter) override;
    void endAllocateToPool(c10::DeviceIndex device, c10::MempoolId_t pool) override;
    void releasePool(c10::DeviceIndex device, c10::MempoolId_t pool) override { inner_.releasePool(device, pool); }
    int getPoolUseCount(c10::DeviceIndex device, c10::MempoolId_t pool) override;
    void createOrIncrefPool(c10::DeviceIndex device, c10::MempoolId_t pool,
                            std::shared_ptr<CUDAAllocator> allocator) override;
    void setUseOnOOM(c10::DeviceIndex device, c10::MempoolId_t pool, bool use) override;
    void setNoSplit(c10::DeviceIndex device, c10::MempoolId_t pool) override { inner_.setNoSplit(device, pool); }
    bool checkPoolLiveAllocations(c10::DeviceIndex device, c10::MempoolId_t pool,
                                  const std::unordered_set<void*>& expected) override;
    c10::cuda::CUDACachingAllocator::ShareableHandle shareIpcHandle(void* address) override;
    std::shared_ptr<void> getIpcDevPtr(std::string handle) override;

    bool isHistoryEnabled() override { return inner_.isHistoryEnabled(); }
    void recordHistory(bool enabled, c10::cuda::CUDACachingAllocator::CreateContextFn recorder, std::size_t entries,
                       c10::cuda::CUDACachingAllocator::RecordContext when, bool clear,
                       const std::vector<std::string>& skipped) override;
    void recordAnnotation(const std::vector<std::pair<std::string, std::string>>& data) override;
    void pushCompileContext(std::string& data) override { inner_.pushCompileContext(data); }
    void popCompileContext() override { inner_.popCompileContext(); }
    void setUserMetadata(const std::string& data) override { inner_.setUserMetadata(data); }
    std::string getUserMetadata() override { return inner_.getUserMetadata(); }
    void attachOutOfMemoryObserver(c10::cuda::CUDACachingAllocator::OutOfMemoryObserver observer) override;
    void attachAllocatorTraceTracker(c10::cuda::CUDACachingAllocator::AllocatorTraceTracker tracker) override;

    void enablePeerAccess(c10::DeviceIndex device, c10::DeviceIndex other) override;
    cudaError_t memcpyAsync(void* to, int toDevice, const void* from, int fromDevice, std::size_t count,
                            cudaStream_t stream, bool peers) override;
    std::shared_ptr<c10::cuda::CUDACachingAllocator::AllocatorState> getCheckpointState(c10::DeviceIndex device,
                                                                                        c10::MempoolId_t pool) override;
    c10::cuda::CUDACachingAllocator::CheckpointDelta
    setCheckpointPoolState(c10::DeviceIndex device,
                           std::shared_ptr<c10::cuda::CUDACachingAllocator::AllocatorState> state) override;
    std::string name() override { return inner_.name(); }
#if TORCH_VERSION_MINOR >= 12
    void attachOomRejectionObserver(c10::cuda::CUDACachingAllocator::OomRejectionObserver observer) override;
    std::shared_ptr<c10::GatheredContext> getContextForPointer(const void* address) override;
#endif
#if TORCH_VERSION_MINOR >= 13
    void markCaptureBegin(c10::DeviceIndex device) override
    {
        inner_.markCaptureBegin(device);
    }
    void markCaptureEnd(c10::DeviceIndex device) override
    {
        inner_.markCaptureEnd(device);
    }
    c10::DataPtr allocateWithAddress(std::size_t bytes, void* address) override;
#endif
#if TORCH_VERSION_MINOR >= 14
    bool supportsUserMetadata() override
    {
        return inner_.supportsUserMetadata();
    }
    void annotateMemory(const void* address, const std::string& data) override
    {
        inner_.annotateMemory(address, data);
    }
#endif

private:
    CUDAAllocator& inner_;
    MemoryHost* host_ = nullptr;
    c10::DeviceIndex device_ = 0;
};

/// Routes the memory of tensors on a GPU through `host`; null: torch's allocator alone.
void setCudaHost(MemoryHost* host, c10::DeviceIndex device);

} // namespace headroom
