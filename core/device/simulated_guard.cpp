// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/device/simulated_guard.h"

#include "core/device/simulated_device.h"
#include "core/device/simulated_state.h"
#include "core/device/stream_observer.h"

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
};

/// The guard of one device. c10's NoOpDeviceGuardImpl cannot be used: it counts no device, and the autograd engine then
/// has no thread for it.
class SimulatedGuard final : public c10::impl::DeviceGuardImplInterface
{
public:
    c10::DeviceType type() const override { return simulatedState().type; }
    c10::Device exchangeDevice(c10::Device) const override { return device(); }
    c10::Device getDevice() const override { return device(); }
    void setDevice(c10::Device) const override {}
    void uncheckedSetDevice(c10::Device) const noexcept override {}
    c10::DeviceIndex deviceCount() const noexcept override { return 1; }

    c10::Stream getStream(c10::Device) const override { return streamOf(currentStream); }
    c10::Stream getDefaultStream(c10::Device) const override { return streamOf(defaultStream); }
    c10::Stream getNewStream(c10::Device, int priority) const override
    {
        return streamOf(newStreamNumber(/*isHighPriority=*/priority < 0));
    }
    c10::Stream getStreamFromGlobalPool(c10::Device, bool isHighPriority) const override
    {
        return streamOf(newStreamNumber(isHighPriority));
    }
    c10::Stream exchangeStream(c10::Stream stream) const override
    {
        return streamOf(std::exchange(currentStream, stream.id()));
    }
    bool queryStream(const c10::Stream&) const override { return true; }
    void synchronizeStream(const c10::Stream& stream) const override
    {
        const std::uint32_t event = newEvent();
        tell(StreamEventKind::record, numberOf(stream), event);
        tell(StreamEventKind::synchronize, 0, event);
    }
    void synchronizeDevice(c10::DeviceIndex) const override {}
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
        tell(StreamEventKind::record, numberOf(stream), recorded.number);
    }
    void block(void* event, const c10::Stream& stream) const override
    {
        if (event)
            tell(StreamEventKind::wait, numberOf(stream), static_cast<Event*>(event)->number);
    }
    bool queryEvent(void*) const override { return true; }
    void synchronizeEvent(void* event) const override
    {
        if (event)
            tell(StreamEventKind::synchronize, 0, static_cast<Event*>(event)->number);
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

std::uint32_t newStreamNumber(bool isHighPriority) noexcept
{
    constexpr std::uint32_t poolSize = 32;
    static std::atomic<std::uint32_t> made[2]{};
    return 1 + (isHighPriority ? poolSize : 0) + made[isHighPriority ? 1 : 0]++ % poolSize;
}

const c10::impl::DeviceGuardImplInterface& simulatedGuard()
{
    static const SimulatedGuard guard;
    return guard;
}

} // namespace headroom::sim
