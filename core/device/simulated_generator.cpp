// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/device/simulated_generator.h"

#include "core/device/simulated_device.h"
#include "core/device/simulated_state.h"

#include <ATen/EmptyTensor.h>
#include <c10/util/Exception.h>

#include <cstring>

namespace headroom::sim {
namespace {

constexpr std::size_t stateBytes = 2 * sizeof(std::uint64_t); // as CUDAGeneratorImpl's: seed and offset

} // namespace

SimulatedGenerator::SimulatedGenerator()
    : GeneratorImpl(sim::device(), simulatedKeys())
{
}

void SimulatedGenerator::set_current_seed(std::uint64_t seed)
{
    *state_ = {seed, 0};
}

std::uint64_t SimulatedGenerator::seed()
{
    set_current_seed(c10::detail::getNonDeterministicRandom(/*is_cuda=*/true));
    return state_->seed;
}

void SimulatedGenerator::set_state(const c10::TensorImpl& state)
{
    TORCH_CHECK(state.numel() * static_cast<std::int64_t>(state.itemsize()) >= static_cast<std::int64_t>(stateBytes),
                "The state of a CUDA generator has ", stateBytes, " bytes; this one has ", state.numel());
    const auto* bytes = static_cast<const std::byte*>(state.data());
    std::memcpy(&state_->seed, bytes, sizeof state_->seed);
    std::memcpy(&state_->offset, bytes + sizeof state_->seed, sizeof state_->offset);
}

c10::intrusive_ptr<c10::TensorImpl> SimulatedGenerator::get_state() const
{
    const at::TensorBase state = at::detail::empty_cpu({static_cast<std::int64_t>(stateBytes)}, at::kByte);
    auto* bytes = static_cast<std::byte*>(state.mutable_data_ptr());
    std::memcpy(bytes, &state_->seed, sizeof state_->seed);
    std::memcpy(bytes + sizeof state_->seed, &state_->offset, sizeof state_->offset);
    return state.getIntrusivePtr();
}

SimulatedGenerator* SimulatedGenerator::clone_impl() const
{
    auto* copy = new SimulatedGenerator;
    *copy->state_ = *state_;
    return copy;
}

void SimulatedGenerator::graphsafe_set_state(const c10::intrusive_ptr<c10::GeneratorImpl>& other)
{
    auto* const same = dynamic_cast<const SimulatedGenerator*>(other.get());
    TORCH_CHECK(same, "A CUDA generator takes the state of another CUDA generator only");
    state_ = same->state_;
}

c10::intrusive_ptr<c10::GeneratorImpl> SimulatedGenerator::graphsafe_get_state() const
{
    auto same = c10::make_intrusive<SimulatedGenerator>();
    same->state_ = state_;
    return same;
}

const at::Generator& defaultGenerator()
{
    static auto* const generator = new at::Generator(at::make_generator<SimulatedGenerator>());
    return *generator;
}

} // namespace headroom::sim
