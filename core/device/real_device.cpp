// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/device/real_device.h"

#include "core/device/addressed_memory.h"
#include "core/device/hosted_memory.h"

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <dlfcn.h>
#include <filesystem>
#include <link.h>
#include <mutex>
#include <thread>

namespace headroom {
namespace {

namespace fs = std::filesystem;

/// The library that core/cuda builds, and its only exported function. The library is separate so that programs also
/// start on machines without CUDA.
constexpr const char* cudaLibraryName = "libheadroom_cuda.so";
constexpr const char* openCudaDeviceName = "headroom_open_cuda_device";

/// Opens GPU `index`. Returns a new device that the caller owns, or null with `error` set.
using OpenCudaDevice = RealDevice*(int index, Error* error) noexcept;

/// The folder of the program or library that holds this code.
fs::path ownFolder()
{
    static const char here = 0;
    Dl_info info{};
    link_map* map = nullptr;
    std::error_code ignored;
    if (dladdr1(&here, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) != 0 && map && map->l_name
        && *map->l_name != 0)
        return fs::absolute(map->l_name, ignored).parent_path();
    return fs::read_symlink("/proc/self/exe", ignored).parent_path(); // the program itself has no name there
}

} // namespace

Result<std::unique_ptr<RealDevice>> openCuda(int index)
{
    const fs::path folder = ownFolder();
    // Python's package has the CUDA library beside the package's own library, an installed program in the folder lib
    // beside bin.
    std::string complaint;
    for (const fs::path& file : {folder / cudaLibraryName, folder / ".." / "lib" / cudaLibraryName}) {
        std::error_code ignored;
        if (!fs::exists(file, ignored))
            continue;
        // The library stays loaded, since torch's allocator keeps a pointer to one of the library's functions.
        void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
        const auto open = library ? reinterpret_cast<OpenCudaDevice*>(dlsym(library, openCudaDeviceName)) : nullptr;
        if (!open) {
            complaint = dlerror();
            continue;
        }
        Error error;
        std::unique_ptr<RealDevice> device(open(index, &error));
        if (!device)
            return error;
        return device;
    }
    if (!complaint.empty())
        return Error{ErrorKind::noDevice,
                     "no GPU can be used: Headroom's library for CUDA cannot be loaded (" + complaint
                         + "); install the CUDA build of torch with all libraries"};
    return Error{ErrorKind::noDevice,
                 "no GPU can be used: Headroom was built without CUDA; build Headroom against the CUDA build of torch "
                 "(the wheels have the headers of CUDA 13 and CUPTI)"};
}

namespace {

/// Receives the reports of libtorch's CPU allocator from every thread with this object as profiler state.
class MemoryReports final : public c10::MemoryReportingInfoBase
{
public:
    explicit MemoryReports(AddressedMemory& memory)
        : memory_(memory)
    {
    }
    void reportMemoryUsage(void* address, std::int64_t bytes, std::size_t, std::size_t, c10::Device device) override
    {
        if (!device.is_cpu())
            return;
        live_ += bytes;
        peak_ = std::max(peak_, live_);
        if (bytes >= 0)
            memory_.allocated(address, bytes);
        else
            memory_.freed(address);
    }
    bool memoryProfilingEnabled() const override { return true; }

    void resetPeak() { peak_ = live_; }
    Bytes peak() const { return peak_; }

private:
    AddressedMemory& memory_;
    Bytes live_ = 0;
    Bytes peak_ = 0;
};

/// Times on the CPU are measured, not computed. The rates here, of a single core of a desktop machine, are for ops
/// without a measurement.
DeviceSpec cpuSpec()
{
    DeviceSpec spec;
    spec.name = "cpu";
    spec.title = "the CPU of this machine";
    spec.gigabytesPerSecond = 20;
    spec.float32Flops = spec.tensorFloat32Flops = spec.halfFlops = spec.float8Flops = 100e9;
    spec.float64Flops = 50e9;
    return spec;
}

std::uint64_t nanoseconds()
{
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
            .count());
}

class CpuDevice final : public RealDevice
{
public:
    CpuDevice()
        : reports_(std::make_shared<MemoryReports>(memory_))
        , telling_(c10::DebugInfoKind::PROFILER_STATE, reports_)
    {
    }

    c10::Device device() const override { return c10::kCPU; }
    const DeviceSpec& spec() const override { return spec_; }
    RecordedMemory& memory() override { return memory_; }
    void synchronize() override {}
    void setHost(MemoryHost* host) override { setCpuHost(host); }

    void resetPeaks() override { reports_->resetPeak(); }
    AllocatorPeaks peaks() const override
    {
        const Bytes peak = reports_->peak();
        return {peak, peak, peak, peak};
    }
    Bytes nonPyTorch() const override { return 0; }

    void startTracing() override { traces_ = true; }
    bool traces() const override { return traces_; }
    cupti::ActivityLog takeTrace() override
    {
        const std::lock_guard lock(mutex_);
        cupti::ActivityLog log = std::exchange(log_, {});
        return log;
    }
    void stopTracing() override { traces_ = false; }
    std::vector<std::string> notes() const override { return {}; }

    void enterOp(std::uint64_t id) noexcept override { opened_ = {id, nanoseconds()}; }
    void leaveOp() noexcept override
    {
        if (!traces_)
            return;
        const std::uint64_t end = nanoseconds();
        const std::lock_guard lock(mutex_);
        const auto correlation = static_cast<std::uint32_t>(log_.gpu.size());
        log_.gpu.push_back({.correlation = correlation, .start = opened_.start, .end = end});
        log_.externals.push_back({cupti::ExternalId::IdKind::op, correlation, opened_.id});
    }
    // Calls need no scope: between ops the CPU runs the program itself, and the module does no work.
    void enterCall(std::uint64_t) noexcept override {}
    void leaveCall() noexcept override {}

private:
    struct Opened
    {
        std::uint64_t id = 0;
        std::uint64_t start = 0;
    };
    static thread_local Opened opened_; ///< ops do not nest in a recording

    AddressedMemory memory_;
    std::shared_ptr<MemoryReports> reports_;
    c10::DebugInfoGuard telling_; ///< sets reports_ for this thread; autograd's threads inherit the setting
    DeviceSpec spec_ = cpuSpec();
    std::atomic<bool> traces_{false};
    std::mutex mutex_;
    cupti::ActivityLog log_;
};

thread_local CpuDevice::Opened CpuDevice::opened_;

} // namespace

std::unique_ptr<RealDevice> openCpu()
{
    return std::make_unique<CpuDevice>();
}

} // namespace headroom
