// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/device/simulated_generator.h"

#include "core/device/simulated_device.h"
#include "core/device/simulated_state.h"

#include <ATen/EmptyTensor.h>
#include <c10/util/Exception.h>

#include <cstring>
#include <memory>

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
                    "The state of a CUDA generator has ", stateBytes, " bytes; this one has ", state.numel());
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
    /// Makes both generators share one state: compiled graphs with checkpoints swap generators in this way.
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

} // namespace headroom::sim
