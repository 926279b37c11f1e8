// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/device/addressed_memory.h"
#include "core/device/memory_host.h"
#include "core/device/real_device.h"

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

namespace headroom {
namespace {

/// Receives the reports of libtorch's CPU allocator from every thread that has it as its profiler state.
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

/// Times on the CPU are measured, not computed. These rates, of one core of a desktop machine, are for ops that were
/// not measured.
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
        log_.externals.push_back({cupti::ExternalId::Kind::op, correlation, opened_.id});
    }
    // Calls need no scope: between ops the CPU runs the program itself, which is not the module's work.
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
    c10::DebugInfoGuard telling_; ///< sets reports_ for this thread; autograd's threads inherit it
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
