// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/device/simulated_hooks.h"

#include "core/device/meta_call.h"
#include "core/device/simulated_device.h"
#include "core/device/simulated_state.h"

#include <ATen/EmptyTensor.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/Exception.h>

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <memory>
#include <mutex>

namespace headroom::sim {
namespace {

constexpr std::size_t stateBytes = 2 * sizeof(std::uint64_t); // seed and offset, as in CUDAGeneratorImpl

class SimulatedGenerator final : public c10::GeneratorImpl
{
public:
    SimulatedGenerator()
        : GeneratorImpl(sim::device(), simulatedKeys())
    {
    }

    void set_current_seed(std::uint64_t seed) override { *state_ = {seed, 0}; }
    void set_offset(std::uint64_t offset) override { state_->offset = offset; }
    std::uint64_t get_offset() const override { return state_->offset; }
    std::uint64_t current_seed() const override { return state_->seed; }
    /// Sets and returns a new non-deterministic seed.
    std::uint64_t seed() override
    {
        set_current_seed(c10::detail::getNonDeterministicRandom(/*is_cuda=*/true));
        return state_->seed;
    }
    void set_state(const c10::TensorImpl& state) override
    {
        TORCH_CHECK(state.numel() * static_cast<std::int64_t>(state.itemsize())
                        >= static_cast<std::int64_t>(stateBytes),
                    "The state of a CUDA generator has ", stateBytes, " bytes; this state has ", state.numel());
        const auto* bytes = static_cast<const std::byte*>(state.data());
        std::memcpy(&state_->seed, bytes, sizeof state_->seed);
        std::memcpy(&state_->offset, bytes + sizeof state_->seed, sizeof state_->offset);
    }
    c10::intrusive_ptr<c10::TensorImpl> get_state() const override
    {
        const at::TensorBase state = at::detail::empty_cpu({static_cast<std::int64_t>(stateBytes)}, at::kByte);
        auto* bytes = static_cast<std::byte*>(state.mutable_data_ptr());
        std::memcpy(bytes, &state_->seed, sizeof state_->seed);
        std::memcpy(bytes + sizeof state_->seed, &state_->offset, sizeof state_->offset);
        return state.getIntrusivePtr();
    }
    /// Makes both generators share a state: compiled graphs with checkpoints swap generators in this way.
    void graphsafe_set_state(const c10::intrusive_ptr<c10::GeneratorImpl>& other) override
    {
        auto* const same = dynamic_cast<const SimulatedGenerator*>(other.get());
        TORCH_CHECK(same, "A CUDA generator takes the state of another CUDA generator only");
        state_ = same->state_;
    }
    c10::intrusive_ptr<c10::GeneratorImpl> graphsafe_get_state() const override
    {
        auto same = c10::make_intrusive<SimulatedGenerator>();
        same->state_ = state_;
        return same;
    }

private:
    struct State
    {
        std::uint64_t seed = c10::default_rng_seed_val;
        std::uint64_t offset = 0;
    };

    SimulatedGenerator* clone_impl() const override
    {
        auto* copy = new SimulatedGenerator;
        *copy->state_ = *state_;
        return copy;
    }

    std::shared_ptr<State> state_ = std::make_shared<State>();
};

} // namespace

at::Generator newGenerator()
{
    return at::make_generator<SimulatedGenerator>();
}

const at::Generator& defaultGenerator()
{
    static auto* const generator = new at::Generator(newGenerator()); // never destroyed: used after main(), too
    return *generator;
}

namespace {

/// Begin and end addresses of pinned memory. Never destroyed: tensors may free theirs after main().
struct PinnedRanges
{
    std::mutex mutex;
    std::map<const std::byte*, const std::byte*> ends;
};

PinnedRanges& ranges()
{
    static auto* const ranges = new PinnedRanges;
    return *ranges;
}

void unpin(void* address)
{
    unregisterPinned(address);
    c10::GetDefaultCPUAllocator()->raw_deallocate(address);
}

class PinnedMemoryAllocator final : public c10::Allocator
{
public:
    c10::DataPtr allocate(std::size_t bytes) override
    {
        if (bytes == 0)
            return {nullptr, nullptr, &c10::detail::deleteNothing, c10::Device(c10::kCPU)};
        void* address = c10::GetDefaultCPUAllocator()->raw_allocate(bytes);
        registerPinned(address, bytes);
        return {address, address, &unpin, c10::Device(c10::kCPU)};
    }
    c10::DeleterFnPtr raw_deleter() const override { return &unpin; }
    void copy_data(void* to, const void* from, std::size_t bytes) const override { std::memcpy(to, from, bytes); }
};

} // namespace

c10::Allocator* pinnedMemoryAllocator()
{
    static auto* const allocator = new PinnedMemoryAllocator;
    return allocator;
}

bool isOwnHostMemory(const c10::DataPtr& memory)
{
    return memory.get_deleter() == &unpin || memory.get_deleter() == c10::GetDefaultCPUAllocator()->raw_deleter();
}

void zeroHostMemory(const at::Tensor& tensor)
{
    if (tensor.numel() == 0)
        return;
    if (!tensor.is_non_overlapping_and_dense()) {
        const c10::impl::ExcludeDispatchKeyGuard guard(keysAboveBackend());
        tensor.zero_();
        return;
    }
    auto* begin = static_cast<std::byte*>(tensor.mutable_data_ptr());
    std::byte* const end = begin + tensor.nbytes();
    if (isOwnHostMemory(tensor.storage().data_ptr())) {
        static const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
        const std::uintptr_t first = (reinterpret_cast<std::uintptr_t>(begin) + page - 1) / page * page;
        const std::uintptr_t last = reinterpret_cast<std::uintptr_t>(end) / page * page;
        // Memory of malloc() is private to the process and of no file, so that such a page is zeros at its next access.
        if (first < last && ::madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED) == 0) {
            std::memset(begin, 0, first - reinterpret_cast<std::uintptr_t>(begin));
            begin = reinterpret_cast<std::byte*>(last);
        }
    }
    std::memset(begin, 0, static_cast<std::size_t>(end - begin));
}

void registerPinned(const void* address, std::size_t bytes)
{
    const auto* begin = static_cast<const std::byte*>(address);
    const std::lock_guard lock(ranges().mutex);
    ranges().ends[begin] = begin + bytes;
}

void unregisterPinned(const void* address)
{
    const std::lock_guard lock(ranges().mutex);
    ranges().ends.erase(static_cast<const std::byte*>(address));
}

bool isPinnedMemory(const void* address)
{
    const auto* byte = static_cast<const std::byte*>(address);
    const std::lock_guard lock(ranges().mutex);
    const auto next = ranges().ends.upper_bound(byte);
    return next != ranges().ends.begin() && byte < std::prev(next)->second;
}

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
    at::RegisterPrivateUse1HooksInterface(new SimulatedHooks); // libtorch keeps the object as long as the process lives
}

namespace {

constexpr long cudnnVersion = 91900;
constexpr long cudaVersion = 13000;

/// Answers what libtorch asks of CUDA. cuDNN counts as absent: PyTorch then runs recurrent networks and CTC loss with
/// own kernels with known allocations.
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
    // The versions come from the wheel for CUDA 13, as in attentionBackend() (core/device/attention_choice.h).
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
    // libtorch_cuda registers its hooks with the default priority. A second registration with the same priority would
    // end the process.
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
