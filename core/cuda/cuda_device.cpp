// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/base/try.h"
#include "core/cost/device_specs.h"
#include "core/cuda/allocator_trace.h"
#include "core/cuda/hosted_allocator.h"
#include "core/cupti/activity_session.h"
#include "core/device/addressed_memory.h"
#include "core/device/real_device.h"

#include <ATen/Context.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/util/Exception.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <dlfcn.h>
#include <filesystem>
#include <string>
#include <string_view>

namespace headroom {
namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;
using c10::CachingDeviceAllocator::TraceEntry;

/// The state of the allocator's tracker. The allocator keeps the tracker for ever, so the state outlives the device.
struct Tracked
{
    AddressedMemory memory;
    std::atomic<bool> wanted{true};
};

std::string_view adviceOn(cudaError_t code)
{
    switch (code) {
    case cudaErrorInsufficientDriver:
    case cudaErrorStubLibrary:
        return "NVIDIA's driver is missing or older than this CUDA; install or update the driver (nvidia-smi shows the "
               "version), or record on the simulated GPU with --device sim";
    case cudaErrorNoDevice:
        return "the driver finds no GPU; check that nvidia-smi lists a GPU, that CUDA_VISIBLE_DEVICES does not hide "
               "the GPU and that this user may open /dev/nvidia0, or record on the simulated GPU with --device sim";
    case cudaErrorDevicesUnavailable:
        return "another program uses the GPU exclusively (compute mode); end that program or ask for another GPU";
    case cudaErrorSystemNotReady:
        return "the GPUs are not ready: start NVIDIA's fabric manager (systemctl start nvidia-fabricmanager)";
    case cudaErrorSystemDriverMismatch:
        return "parts of NVIDIA's driver have different versions: restart the machine to complete the driver's update";
    case cudaErrorCompatNotSupportedOnDevice:
        return "CUDA's forward compatibility does not support this GPU: install a driver of this CUDA's version";
    case cudaErrorMpsConnectionFailed:
        return "the server of MPS does not answer: start the server, or unset CUDA_MPS_PIPE_DIRECTORY";
    case cudaErrorNotPermitted:
    case cudaErrorOperatingSystem:
        return "the system does not let this process use the GPU: in a container, pass the GPU in (--gpus all)";
    case cudaErrorMemoryAllocation:
        return "the GPU has no memory left for CUDA's context: end other programs on the GPU (listed by nvidia-smi)";
    case cudaErrorECCUncorrectable:
        return "the GPU's memory is defective (an uncorrectable ECC error): reset or replace the GPU";
    default:
        return {};
    }
}

/// A noDevice error. The sentence says why CUDA cannot be used and what to do.
Error cudaFailure(cudaError_t code)
{
    const std::string_view known = adviceOn(code);
    std::string message = "no GPU can be used: ";
    message += known.empty() ? std::string(cudaGetErrorString(code)) : std::string(known);
    message += " (" + std::string(cudaGetErrorName(code)) + ", code " + std::to_string(static_cast<int>(code)) + ")";
    return {ErrorKind::noDevice, std::move(message)};
}

std::string firstLine(const std::string& text)
{
    return text.substr(0, text.find('\n'));
}

/// Loads libtorch_cuda, which registers CUDA's kernels, from the folder of libc10_cuda.
Status loadTorchCuda()
{
    Dl_info info{};
    if (dladdr(reinterpret_cast<void*>(&c10::cuda::device_count_ensure_non_zero), &info) == 0 || !info.dli_fname)
        return Error{ErrorKind::internal, "the folder of libc10_cuda.so cannot be found"};
    const auto file = std::filesystem::path(info.dli_fname).parent_path() / "libtorch_cuda.so";
    if (!dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL)) {
        const char* const why = dlerror();
        return Error{ErrorKind::noDevice,
                     "no GPU can be used: CUDA's half of torch cannot be loaded (" + std::string(why ? why : "?")
                         + "); install torch with all dependencies: pip install torch"};
    }
    return {};
}

int attribute(cudaDeviceAttr which, int device)
{
    int value = 0;
    return cudaDeviceGetAttribute(&value, which, device) == cudaSuccess ? value : 0;
}

Result<GpuFacts> factsOf(int device)
{
    cudaDeviceProp properties{};
    if (const cudaError_t failed = cudaGetDeviceProperties(&properties, device); failed != cudaSuccess)
        return cudaFailure(failed);
    GpuFacts facts;
    facts.name = properties.name;
    facts.memory = static_cast<Bytes>(properties.totalGlobalMem);
    facts.computeCapability = properties.major * 10 + properties.minor;
    facts.multiprocessors = properties.multiProcessorCount;
    facts.clockKHz = attribute(cudaDevAttrClockRate, device);
    facts.memoryClockKHz = attribute(cudaDevAttrMemoryClockRate, device);
    facts.busWidth = attribute(cudaDevAttrGlobalMemoryBusWidth, device);
    return facts;
}

/// A real GPU, by torch: memory from the caching allocator's tracker and snapshot, times from CUPTI.
class CudaDevice final : public RealDevice
{
public:
    CudaDevice(int index, const GpuFacts& facts)
        : index_(static_cast<c10::DeviceIndex>(index))
        , spec_(deviceSpecOf(facts))
        , tracked_(std::make_shared<Tracked>())
    {
    }
    ~CudaDevice() override
    {
        tracked_->wanted = false;
        stopTracing();
    }

    /// Starts to track allocations. A snapshot gives the existing blocks.
    void track();

    c10::Device device() const override { return {c10::kCUDA, index_}; }
    const DeviceSpec& spec() const override { return spec_; }
    RecordedMemory& memory() override { return tracked_->memory; }
    void synchronize() override { c10::cuda::device_synchronize(); }
    void setHost(MemoryHost* host) override { setCudaHost(host, index_); }

    void resetPeaks() override { allocator::resetPeakStats(index_); }
    AllocatorPeaks peaks() const override;
    Bytes nonPyTorch() const override;

    void startTracing() override;
    bool traces() const override { return session_ != nullptr; }
    cupti::ActivityLog takeTrace() override { return session_ ? session_->take() : cupti::ActivityLog(); }
    void stopTracing() override;
    std::vector<std::string> notes() const override;

    void enterOp(std::uint64_t id) noexcept override
    {
        if (session_)
            session_->enterOp(id);
    }
    void leaveOp() noexcept override
    {
        if (session_)
            session_->leaveOp();
    }
    void enterCall(std::uint64_t id) noexcept override
    {
        if (session_)
            session_->enterCall(id);
    }
    void leaveCall() noexcept override
    {
        if (session_)
            session_->leaveCall();
    }

private:
    c10::DeviceIndex index_;
    DeviceSpec spec_;
    std::shared_ptr<Tracked> tracked_;
    std::unique_ptr<cupti::ActivitySession> session_;
    bool failed_ = false; ///< tracing failed and is not tried again
    std::vector<std::string> notes_;
};

void CudaDevice::track()
{
    allocator::get()->attachAllocatorTraceTracker([tracked = tracked_, index = index_](const TraceEntry& entry) {
        // Under the allocator's lock: no function of CUDA, torch or Python may be called from here.
        if (!tracked->wanted || entry.device_ != index)
            return;
        tell(tracked->memory, entry);
    });
    tracked_->memory.reservedMore(0); // makes the reserved total known, even without a segment
    for (const auto& segment : allocator::snapshot({0, 0}, /*include_traces=*/false).segments) {
        if (segment.device != index_)
            continue;
        tracked_->memory.reservedMore(static_cast<Bytes>(segment.total_size));
        std::size_t address = segment.address;
        for (const auto& block : segment.blocks) {
            if (block.allocated)
                tracked_->memory.allocated(reinterpret_cast<const void*>(address),
                                           static_cast<Bytes>(block.requested_size),
                                           reinterpret_cast<std::uintptr_t>(segment.stream));
            address += block.size;
        }
    }
}

AllocatorPeaks CudaDevice::peaks() const
{
    const auto stats = allocator::getDeviceStats(index_);
    constexpr auto all = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    return {stats.requested_bytes[all].peak, stats.allocated_bytes[all].peak, stats.active_bytes[all].peak,
            stats.reserved_bytes[all].peak};
}

Bytes CudaDevice::nonPyTorch() const
{
    std::size_t free = 0;
    std::size_t total = 0;
    if (cudaMemGetInfo(&free, &total) != cudaSuccess)
        return 0;
    const auto stats = allocator::getDeviceStats(index_);
    const Bytes reserved
        = stats.reserved_bytes[static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE)].current;
    return std::max<Bytes>(static_cast<Bytes>(total - free) - reserved, 0);
}

void CudaDevice::startTracing()
{
    if (session_ || failed_)
        return;
    failed_ = true;
    const auto api = cupti::loadCupti();
    if (!api) {
        notes_.push_back(api.error().message);
        return;
    }
    auto session = cupti::ActivitySession::start(*api);
    failed_ = !session;
    if (session)
        session_ = std::move(*session);
    else
        notes_.push_back(session.error().message);
}

void CudaDevice::stopTracing()
{
    if (!session_)
        return;
    session_->stop();
    for (const std::string& note : session_->notes())
        notes_.push_back(note);
    session_.reset();
}

std::vector<std::string> CudaDevice::notes() const
{
    std::vector<std::string> notes = notes_;
    if (session_)
        notes.insert(notes.end(), session_->notes().begin(), session_->notes().end());
    std::vector<std::string> once; // each flush of a step may add the same note
    for (std::string& note : notes)
        if (std::ranges::find(once, note) == once.end())
            once.push_back(std::move(note));
    return once;
}

Result<std::unique_ptr<RealDevice>> open(int index)
{
    int count = 0;
    if (const cudaError_t failed = cudaGetDeviceCount(&count); failed != cudaSuccess)
        return cudaFailure(failed);
    if (index < 0 || index >= count)
        return Error{ErrorKind::noDevice,
                     "cuda:" + std::to_string(index) + " is not there: this machine has "
                         + (count == 1 ? "one GPU, cuda:0"
                                       : std::to_string(count) + " GPUs, cuda:0 to cuda:" + std::to_string(count - 1))};
    RETURN_IF_ERROR(loadTorchCuda());
    ASSIGN_OR_RETURN(const auto facts, factsOf(index));
    try {
        at::globalContext().lazyInitDevice(c10::kCUDA);
        c10::cuda::set_device(static_cast<c10::DeviceIndex>(index));
        auto device = std::make_unique<CudaDevice>(index, facts);
        device->track();
        return std::unique_ptr<RealDevice>(std::move(device));
    } catch (const c10::Error& error) {
        return Error{ErrorKind::noDevice,
                     "no GPU can be used: " + firstLine(error.what_without_backtrace())
                         + " (the allocator's native backend is needed: unset PYTORCH_ALLOC_CONF)"};
    } catch (const std::exception& error) {
        return Error{ErrorKind::noDevice, "no GPU can be used: " + firstLine(error.what())};
    }
}

} // namespace
} // namespace headroom

extern "C" __attribute__((visibility("default"))) headroom::RealDevice*
headroom_open_cuda_device(int index, headroom::Error* error) noexcept
{
    auto device = headroom::open(index);
    if (device)
        return device->release();
    *error = device.error();
    return nullptr;
}
