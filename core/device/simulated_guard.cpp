// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/device/simulated_guard.h"

#include "core/device/memory_pools.h"
#include "core/device/placeholder_values.h"
#include "core/device/simulated_device.h"
#include "core/device/simulated_state.h"
#include "core/device/stream_observer.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <utility>

namespace headroom::sim {
namespace {

using Clock = std::chrono::steady_clock;

constexpr c10::StreamId defaultStream = 0;
thread_local c10::StreamId currentStream = defaultStream;

c10::Stream streamOf(c10::StreamId id)
{
    return c10::Stream(c10::Stream::UNSAFE, device(), id);
}

std::uint32_t numberOf(const c10::Stream& stream)
{
    return static_cast<std::uint32_t>(stream.id());
}

/// What the `void*` of an event in c10's interface points to.
struct Event
{
    Clock::time_point time;
    std::uint32_t number = newEvent();
    std::uint32_t pool = 0; ///< of the capture of a CUDA graph with the recording of the event; 0: none
    std::uint64_t recorded = 0; ///< value of `records` at the recording of the event
    bool awaited = false; ///< the program has waited for the event since
};

std::atomic<std::uint64_t> records{0}; ///< number of events that were recorded
std::atomic<std::uint64_t> awaitedRecords{0}; ///< that number when the program last waited for the whole device

/// The guard of the single device. c10's NoOpDeviceGuardImpl cannot be used: its count of devices is 0, and the
/// autograd engine then has no thread for the device.
class SimulatedGuard final : public c10::impl::DeviceGuardImplInterface
{
public:
    c10::DeviceType type() const override { return simulatedState().type; }
    c10::Device exchangeDevice(c10::Device) const override { return device(); }
    c10::Device getDevice() const override { return device(); }
    void setDevice(c10::Device) const override {}
    void uncheckedSetDevice(c10::Device) const noexcept override {}
    c10::DeviceIndex deviceCount() const noexcept override { return 1; }

    c10::DeviceCapability getDeviceCapability(c10::Device) const override { return {}; } // all dtypes, as CUDA's

    c10::Stream getStream(c10::Device) const override { return streamOf(currentStream); }
    c10::Stream getDefaultStream(c10::Device) const override { return streamOf(defaultStream); }
    c10::Stream getNewStream(c10::Device, int priority) const override { return streamOf(newStreamNumber(-priority)); }
    c10::Stream getStreamFromGlobalPool(c10::Device, bool isHighPriority) const override
    {
        return streamOf(newStreamNumber(isHighPriority ? highestPriority : 0));
    }
    c10::Stream exchangeStream(c10::Stream stream) const override
    {
        return streamOf(std::exchange(currentStream, stream.id()));
    }
    bool queryStream(const c10::Stream&) const override
    {
        tellOfDone();
        return true;
    }
    void synchronizeStream(const c10::Stream& stream) const override
    {
        const std::uint32_t event = newEvent();
        tell(StreamEventKind::record, numberOf(stream), event);
        tell(StreamEventKind::synchronize, 0, event);
    }
    void synchronizeDevice(c10::DeviceIndex) const override { awaitedRecords = records.load(); }
    void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override
    {
        simulatedState().allocator.recordStream(data, numberOf(stream));
    }

    void record(void** event, const c10::Stream& stream, c10::DeviceIndex, c10::EventFlag) const override
    {
        if (!*event)
            *event = new Event;
        auto& recorded = *static_cast<Event*>(*event);
        recorded.time = Clock::now();
        recorded.pool = poolOfStream(numberOf(stream));
        recorded.recorded = ++records;
        recorded.awaited = false;
        tell(StreamEventKind::record, numberOf(stream), recorded.number);
    }
    void block(void* event, const c10::Stream& stream) const override
    {
        if (!event)
            return;
        const auto& awaited = *static_cast<Event*>(event);
        joinPool(awaited.pool, numberOf(stream));
        tell(StreamEventKind::wait, numberOf(stream), awaited.number);
    }
    bool queryEvent(void* event) const override
    {
        const auto* const asked = static_cast<Event*>(event);
        if (asked && !asked->awaited && asked->recorded > awaitedRecords)
            tellOfDone();
        return true;
    }
    void synchronizeEvent(void* event) const override
    {
        if (!event)
            return;
        auto& awaited = *static_cast<Event*>(event);
        awaited.awaited = true;
        tell(StreamEventKind::synchronize, 0, awaited.number);
    }
    void destroyEvent(void* event, c10::DeviceIndex) const noexcept override { delete static_cast<Event*>(event); }
    double elapsedTime(void* first, void* second, c10::DeviceIndex) const override
    {
        const auto elapsed = static_cast<Event*>(second)->time - static_cast<Event*>(first)->time;
        return std::chrono::duration<double, std::milli>(elapsed).count();
    }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, SimulatedGuard)

} // namespace

std::uint32_t currentStreamNumber() noexcept
{
    return static_cast<std::uint32_t>(currentStream);
}

std::uint32_t newStreamNumber(int priority) noexcept
{
    constexpr std::uint32_t poolSize = 32;
    static std::array<std::atomic<std::uint32_t>, highestPriority + 1> made{};
    const auto pool = static_cast<std::uint32_t>(std::clamp(priority, 0, highestPriority));
    return 1 + pool * poolSize + made.at(pool)++ % poolSize;
}

const c10::impl::DeviceGuardImplInterface& simulatedGuard()
{
    static const SimulatedGuard guard;
    return guard;
}

} // namespace headroom::sim
