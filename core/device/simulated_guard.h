// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <cstdint>

namespace headroom::sim {

/// Returns the number of this thread's current stream; 0 is the default stream.
std::uint32_t currentStreamNumber() noexcept;
/// Returns the number of a pooled stream, in turn, as CUDA does (c10/cuda/CUDAStream.cpp): 32 for each priority.
std::uint32_t newStreamNumber(bool isHighPriority) noexcept;

/// The guard of one device whose streams run all work at once: nothing ever waits. c10's NoOpDeviceGuardImpl cannot be
/// used: it counts no device, and the autograd engine then has no thread for it. Events take this machine's time, and
/// report the order that they impose to the observer of streams.
struct SimulatedGuard final : c10::impl::DeviceGuardImplInterface
{
    c10::DeviceType type() const override;
    c10::Device exchangeDevice(c10::Device) const override;
    c10::Device getDevice() const override;
    void setDevice(c10::Device) const override {}
    void uncheckedSetDevice(c10::Device) const noexcept override {}
    c10::DeviceIndex deviceCount() const noexcept override { return 1; }

    c10::Stream getStream(c10::Device) const override;
    c10::Stream getDefaultStream(c10::Device) const override;
    c10::Stream getNewStream(c10::Device, int) const override;
    c10::Stream getStreamFromGlobalPool(c10::Device, bool) const override;
    c10::Stream exchangeStream(c10::Stream stream) const override;
    bool queryStream(const c10::Stream&) const override { return true; }
    void synchronizeStream(const c10::Stream& stream) const override;
    void synchronizeDevice(c10::DeviceIndex) const override {}
    void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override;

    void record(void** event, const c10::Stream&, c10::DeviceIndex, c10::EventFlag) const override;
    void block(void* event, const c10::Stream& stream) const override;
    bool queryEvent(void*) const override { return true; }
    void synchronizeEvent(void* event) const override;
    void destroyEvent(void* event, c10::DeviceIndex) const noexcept override;
    double elapsedTime(void* first, void* second, c10::DeviceIndex) const override;
};

} // namespace headroom::sim
