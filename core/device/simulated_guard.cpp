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

/// Behind a pointer of c10's.
struct Event
{
    Clock::time_point time;
    std::uint32_t number = newEvent();
};

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

c10::DeviceType SimulatedGuard::type() const
{
    return simulatedState().type;
}

c10::Device SimulatedGuard::exchangeDevice(c10::Device) const
{
    return device();
}

c10::Device SimulatedGuard::getDevice() const
{
    return device();
}

c10::Stream SimulatedGuard::getStream(c10::Device) const
{
    return streamOf(currentStream);
}

c10::Stream SimulatedGuard::getDefaultStream(c10::Device) const
{
    return streamOf(defaultStream);
}

c10::Stream SimulatedGuard::getNewStream(c10::Device, int priority) const
{
    return streamOf(newStreamNumber(priority < 0));
}

c10::Stream SimulatedGuard::getStreamFromGlobalPool(c10::Device, bool isHighPriority) const
{
    return streamOf(newStreamNumber(isHighPriority));
}

c10::Stream SimulatedGuard::exchangeStream(c10::Stream stream) const
{
    return streamOf(std::exchange(currentStream, stream.id()));
}

void SimulatedGuard::synchronizeStream(const c10::Stream& stream) const
{
    const std::uint32_t event = newEvent();
    tell(StreamEventKind::record, numberOf(stream), event);
    tell(StreamEventKind::synchronize, 0, event);
}

void SimulatedGuard::recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const
{
    simulatedState().allocator.recordStream(data, numberOf(stream));
}

void SimulatedGuard::record(void** event, const c10::Stream& stream, c10::DeviceIndex, c10::EventFlag) const
{
    if (!*event)
        *event = new Event;
    auto& recorded = *static_cast<Event*>(*event);
    recorded.time = Clock::now();
    tell(StreamEventKind::record, numberOf(stream), recorded.number);
}

void SimulatedGuard::block(void* event, const c10::Stream& stream) const
{
    if (event)
        tell(StreamEventKind::wait, numberOf(stream), static_cast<Event*>(event)->number);
}

void SimulatedGuard::synchronizeEvent(void* event) const
{
    if (event)
        tell(StreamEventKind::synchronize, 0, static_cast<Event*>(event)->number);
}

void SimulatedGuard::destroyEvent(void* event, c10::DeviceIndex) const noexcept
{
    delete static_cast<Event*>(event);
}

double SimulatedGuard::elapsedTime(void* first, void* second, c10::DeviceIndex) const
{
    const auto elapsed = static_cast<Event*>(second)->time - static_cast<Event*>(first)->time;
    return std::chrono::duration<double, std::milli>(elapsed).count();
}

} // namespace headroom::sim
