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
    : GeneratorImpl(device(), simulatedKeys())
{
}

void SimulatedGenerator::set_current_seed(std::uint64_t seed)
{
    seed_ = seed;
    offset_ = 0;
}

std::uint64_t SimulatedGenerator::seed()
{
    set_current_seed(c10::detail::getNonDeterministicRandom(/*is_cuda=*/true));
    return seed_;
}

void SimulatedGenerator::set_state(const c10::TensorImpl& state)
{
    TORCH_CHECK(state.numel() * static_cast<std::int64_t>(state.itemsize()) >= static_cast<std::int64_t>(stateBytes),
                "The state of a CUDA generator has ", stateBytes, " bytes; this one has ", state.numel());
    const auto* bytes = static_cast<const std::byte*>(state.data());
    std::memcpy(&seed_, bytes, sizeof seed_);
    std::memcpy(&offset_, bytes + sizeof seed_, sizeof offset_);
}

c10::intrusive_ptr<c10::TensorImpl> SimulatedGenerator::get_state() const
{
    const at::TensorBase state = at::detail::empty_cpu({static_cast<std::int64_t>(stateBytes)}, at::kByte);
    auto* bytes = static_cast<std::byte*>(state.mutable_data_ptr());
    std::memcpy(bytes, &seed_, sizeof seed_);
    std::memcpy(bytes + sizeof seed_, &offset_, sizeof offset_);
    return state.getIntrusivePtr();
}

SimulatedGenerator* SimulatedGenerator::clone_impl() const
{
    auto* copy = new SimulatedGenerator;
    copy->seed_ = seed_;
    copy->offset_ = offset_;
    return copy;
}

const at::Generator& defaultGenerator()
{
    static auto* const generator = new at::Generator(at::make_generator<SimulatedGenerator>());
    return *generator;
}

} // namespace headroom::sim
