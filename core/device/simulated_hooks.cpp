// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/device/simulated_device.h"
#include "core/device/simulated_generator.h"
#include "core/device/simulated_state.h"

#include <ATen/detail/PrivateUse1HooksInterface.h>

namespace headroom::sim {
namespace {

/// Answers what libtorch asks of an accelerator.
struct SimulatedHooks final : at::PrivateUse1HooksInterface
{
    bool isBuilt() const override { return true; }
    bool isAvailable() const override { return true; }
    bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
    c10::DeviceIndex deviceCount() const override { return 1; }
    c10::DeviceIndex getCurrentDevice() const override { return 0; }
    void setCurrentDevice(c10::DeviceIndex) const override {}
    c10::DeviceIndex exchangeDevice(c10::DeviceIndex) const override { return 0; }
    c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex) const override { return 0; }
    const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override { return defaultGenerator(); }
    at::Generator getNewGenerator(c10::DeviceIndex) const override { return newGenerator(); }
    at::Device getDeviceFromPtr(void*) const override { return device(); }
    void resizePrivateUse1Bytes(const c10::Storage& storage, std::size_t bytes) const override
    {
        simulatedState().allocator.resize(*storage.unsafeGetStorageImpl(), static_cast<Bytes>(bytes));
    }
};

/// libtorch asks for the allocator by device type; c10::SetAllocator keeps the pointer.
const bool allocatorSet = [] {
    c10::SetAllocator(c10::DeviceType::PrivateUse1, &simulatedState().allocator);
    return true;
}();

} // namespace

void registerHooks()
{
    at::RegisterPrivateUse1HooksInterface(new SimulatedHooks); // libtorch keeps it as long as the process lives
}

} // namespace headroom::sim
