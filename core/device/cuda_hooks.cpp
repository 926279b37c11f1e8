// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/device/cuda_hooks.h"

#include "core/device/pinned_memory.h"
#include "core/device/simulated_device.h"
#include "core/device/simulated_generator.h"
#include "core/device/simulated_state.h"

#include <ATen/detail/CUDAHooksInterface.h>

#include <memory>

namespace headroom::sim {
namespace {

constexpr long cudnnVersion = 91900;
constexpr long cudaVersion = 13000;

/// Answers what libtorch asks of CUDA. cuDNN counts as absent: PyTorch then runs recurrent networks and CTC loss with
/// its own kernels, whose allocations are known.
struct SimulatedCudaHooks final : at::CUDAHooksInterface
{
    void init() const override {}
    bool isBuilt() const override { return true; }
    bool isAvailable() const override { return true; }
    bool hasCUDA() const override { return true; }
    bool hasCUDART() const override { return true; }
    bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
    int getNumGPUs() const override { return 1; }
    c10::DeviceIndex deviceCount() const override { return 1; }
    c10::DeviceIndex current_device() const override { return 0; }
    c10::DeviceIndex getCurrentDevice() const override { return 0; }
    void setCurrentDevice(c10::DeviceIndex) const override {}
    c10::DeviceIndex exchangeDevice(c10::DeviceIndex) const override { return 0; }
    c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex) const override { return 0; }
    void deviceSynchronize(c10::DeviceIndex) const override {}
    at::Device getDeviceFromPtr(void*) const override { return device(); }
    const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override { return defaultGenerator(); }
    at::Generator getNewGenerator(c10::DeviceIndex) const override { return newGenerator(); }
    c10::Allocator* getCUDADeviceAllocator() const override { return &simulatedState().allocator; }
    c10::Allocator* getPinnedMemoryAllocator() const override { return pinnedMemoryAllocator(); }
    bool isPinnedPtr(const void* address) const override { return isPinnedMemory(address); }
    // The versions are those of the wheel for CUDA 13, as in attentionBackend() (core/device/attention_choice.h).
    long versionCuDNN() const override { return cudnnVersion; }
    long versionRuntimeCuDNN() const override { return cudnnVersion; }
    long versionCUDART() const override { return cudaVersion; }
    std::string showConfig() const override { return "simulated by Headroom"; }
};

std::unique_ptr<at::CUDAHooksInterface> makeHooks(at::CUDAHooksArgs)
{
    return std::make_unique<SimulatedCudaHooks>();
}

} // namespace

void claimCudaHooks()
{
    // libtorch_cuda registers its hooks with the default priority. Two with the same priority would end the process.
    [[maybe_unused]] static const bool registered = [] {
        at::CUDAHooksRegistry()->Register("CUDAHooks", &makeHooks, c10::REGISTRY_PREFERRED);
        return true;
    }();
}

bool ownsCudaHooks()
{
    return dynamic_cast<const SimulatedCudaHooks*>(&at::detail::getCUDAHooks()) != nullptr;
}

} // namespace headroom::sim
