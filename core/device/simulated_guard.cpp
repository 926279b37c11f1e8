// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/device/simulated_guard.h"

#include "core/device/simulated_device.h"
#include "core/device/simulated_state.h"

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

c10::Stream newStream()
{
    static std::atomic<c10::StreamId> last{defaultStream};
    return streamOf(++last);
}

} // namespace

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

c10::Stream SimulatedGuard::getNewStream(c10::Device, int) const
{
    return newStream();
}

c10::Stream SimulatedGuard::getStreamFromGlobalPool(c10::Device, bool) const
{
    return newStream();
}

c10::Stream SimulatedGuard::exchangeStream(c10::Stream stream) const
{
    return streamOf(std::exchange(currentStream, stream.id()));
}

void SimulatedGuard::record(void** event, const c10::Stream&, c10::DeviceIndex, c10::EventFlag) const
{
    if (!*event)
        *event = new Clock::time_point;
    *static_cast<Clock::time_point*>(*event) = Clock::now();
}

void SimulatedGuard::destroyEvent(void* event, c10::DeviceIndex) const noexcept
{
    delete static_cast<Clock::time_point*>(event);
}

double SimulatedGuard::elapsedTime(void* first, void* second, c10::DeviceIndex) const
{
    const auto elapsed = *static_cast<Clock::time_point*>(second) - *static_cast<Clock::time_point*>(first);
    return std::chrono::duration<double, std::milli>(elapsed).count();
}

} // namespace headroom::sim
