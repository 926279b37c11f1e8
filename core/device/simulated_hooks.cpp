// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/device/simulated_hooks.h"

#include "core/device/simulated_state.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/Generator.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

namespace headroom::sim {
namespace {

constexpr c10::DeviceType simulatedType = c10::DeviceType::PrivateUse1;
const c10::Device simulatedDevice(simulatedType, 0);

/// One device, one stream, nothing ever waits. c10's NoOpDeviceGuardImpl will not do: it counts no device, and the
/// autograd engine then has no thread for it.
struct SimulatedGuard final : c10::impl::DeviceGuardImplInterface
{
    c10::DeviceType type() const override { return simulatedType; }
    c10::Device exchangeDevice(c10::Device) const override { return simulatedDevice; }
    c10::Device getDevice() const override { return simulatedDevice; }
    void setDevice(c10::Device) const override {}
    void uncheckedSetDevice(c10::Device) const noexcept override {}
    c10::Stream getStream(c10::Device) const override { return stream(); }
    c10::Stream getDefaultStream(c10::Device) const override { return stream(); }
    c10::Stream getNewStream(c10::Device, int) const override { return stream(); }
    c10::Stream exchangeStream(c10::Stream) const override { return stream(); }
    c10::DeviceIndex deviceCount() const noexcept override { return 1; }
    void record(void**, const c10::Stream&, c10::DeviceIndex, c10::EventFlag) const override {}
    void block(void*, const c10::Stream&) const override {}
    bool queryEvent(void*) const override { return true; }
    void destroyEvent(void*, c10::DeviceIndex) const noexcept override {}
    bool queryStream(const c10::Stream&) const override { return true; }
    void synchronizeStream(const c10::Stream&) const override {}
    void synchronizeEvent(void*) const override {}
    void synchronizeDevice(c10::DeviceIndex) const override {}
    void recordDataPtrOnStream(const c10::DataPtr&, const c10::Stream&) const override {}
    double elapsedTime(void*, void*, c10::DeviceIndex) const override { return 0.0; }

private:
    static c10::Stream stream() { return c10::Stream(c10::Stream::DEFAULT, simulatedDevice); }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, SimulatedGuard)

/// Keeps a seed and an offset as CUDA's generator does; nothing is ever drawn from it.
class SimulatedGenerator final : public c10::GeneratorImpl
{
public:
    SimulatedGenerator()
        : GeneratorImpl(simulatedDevice, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1))
    {
    }
    void set_current_seed(std::uint64_t seed) override
    {
        seed_ = seed;
        offset_ = 0;
    }
    void set_offset(std::uint64_t offset) override { offset_ = offset; }
    std::uint64_t get_offset() const override { return offset_; }
    std::uint64_t current_seed() const override { return seed_; }
    std::uint64_t seed() override { return seed_; }
    void set_state(const c10::TensorImpl& state) override
    {
        const auto* words = static_cast<const std::uint64_t*>(state.data());
        seed_ = words[0];
        offset_ = words[1];
    }
    c10::intrusive_ptr<c10::TensorImpl> get_state() const override
    {
        at::TensorBase state = at::detail::empty_cpu({2 * sizeof(std::uint64_t)}, at::kByte);
        auto* words = static_cast<std::uint64_t*>(state.mutable_data_ptr());
        words[0] = seed_;
        words[1] = offset_;
        return state.getIntrusivePtr();
    }

private:
    GeneratorImpl* clone_impl() const override { return new SimulatedGenerator(*this); }
    SimulatedGenerator(const SimulatedGenerator& other)
        : SimulatedGenerator()
    {
        seed_ = other.seed_;
        offset_ = other.offset_;
    }

    std::uint64_t seed_ = 0;
    std::uint64_t offset_ = 0;
};

/// What libtorch asks an accelerator for.
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
    const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override { return generator_; }
    at::Generator getNewGenerator(c10::DeviceIndex) const override { return at::make_generator<SimulatedGenerator>(); }
    at::Device getDeviceFromPtr(void*) const override { return simulatedDevice; }
    void resizePrivateUse1Bytes(const c10::Storage& storage, std::size_t bytes) const override
    {
        simulatedState().allocator.resize(*storage.unsafeGetStorageImpl(), static_cast<Bytes>(bytes));
    }

private:
    at::Generator generator_ = at::make_generator<SimulatedGenerator>();
};

/// libtorch asks for the allocator by device type; c10::SetAllocator keeps the pointer.
const bool allocatorSet = [] {
    c10::SetAllocator(simulatedType, &simulatedState().allocator);
    return true;
}();

} // namespace

void registerHooks()
{
    at::RegisterPrivateUse1HooksInterface(new SimulatedHooks); // libtorch keeps it as long as the process lives
}

} // namespace headroom::sim
