// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/checkpoint/ambient_state.h"

#include "core/device/hosted_memory.h"

#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <ATen/autocast_mode.h>

#include <algorithm>
#include <mutex>
#include <ranges>

namespace headroom {
namespace {

using Generators = std::vector<std::pair<at::Generator, at::Tensor>>;

/// Returns a generator's state. The tensor is on the CPU and does not count as memory of a simulated device.
at::Tensor stateOf(at::Generator generator)
{
    const sim::HostedMemory::Uncounted bookkeeping;
    const std::lock_guard lock(generator.mutex());
    return generator.get_state();
}

void setStates(const Generators& generators)
{
    for (const auto& [saved, state] : generators) {
        at::Generator generator = saved;
        const std::lock_guard lock(generator.mutex());
        const sim::HostedMemory::Uncounted bookkeeping;
        generator.set_state(state);
    }
}

/// Returns the devices of the tensors among `inputs`, each once, without the CPU. As in PyTorch, tensors in lists do
/// not count.
std::vector<at::Device> devicesOf(const Values& inputs)
{
    std::vector<at::Device> devices;
    for (const c10::IValue& input : inputs) {
        if (!input.isTensor() || !input.toTensor().defined())
            continue;
        const at::Device device = input.toTensor().device();
        const bool draws = !device.is_cpu() && !device.is_meta();
        if (draws && std::ranges::find(devices, device) == devices.end())
            devices.push_back(device);
    }
    return devices;
}

} // namespace

AmbientState::AmbientState(const Values& inputs, bool random)
    : autocastCache_(at::autocast::is_autocast_cache_enabled())
{
    const std::vector<at::Device> devices = devicesOf(inputs);
    if (random) {
        const at::Generator& cpu = at::globalContext().defaultGenerator(at::kCPU);
        generators_.emplace_back(cpu, stateOf(cpu));
        for (const at::Device& device : devices) {
            const at::Generator& generator = at::globalContext().defaultGenerator(device);
            generators_.emplace_back(generator, stateOf(generator));
        }
    }
    std::vector<at::DeviceType> types;
    for (const at::Device& device : devices)
        types.push_back(device.type());
    if (const auto accelerator = at::getAccelerator(); accelerator && types.empty())
        types.push_back(*accelerator);
    types.push_back(at::kCPU);
    for (const at::DeviceType type : types)
        if (at::autocast::is_autocast_available(type))
            autocasts_.push_back(autocastOf(type));
}

AmbientState::Autocast AmbientState::autocastOf(at::DeviceType device)
{
    return {device, at::autocast::is_autocast_enabled(device), at::autocast::get_autocast_dtype(device)};
}

void AmbientState::set(const Autocast& autocast)
{
    at::autocast::set_autocast_enabled(autocast.device, autocast.enabled);
    at::autocast::set_autocast_dtype(autocast.device, autocast.dtype);
}

AmbientState::Replay::Replay(const AmbientState& state)
    : autocastCache_(at::autocast::is_autocast_cache_enabled())
{
    for (const auto& [generator, then] : state.generators_)
        generators_.emplace_back(generator, stateOf(generator));
    setStates(state.generators_);
    for (const Autocast& autocast : state.autocasts_) {
        autocasts_.push_back(autocastOf(autocast.device));
        set(autocast);
        at::autocast::increment_nesting();
    }
    at::autocast::set_autocast_cache_enabled(state.autocastCache_);
}

AmbientState::Replay::~Replay()
{
    for (const Autocast& autocast : std::views::reverse(autocasts_)) {
        // The outermost autocast of a thread drops its cached casts of weights.
        if (at::autocast::decrement_nesting() == 0)
            at::autocast::clear_cache();
        set(autocast);
    }
    at::autocast::set_autocast_cache_enabled(autocastCache_);
    setStates(generators_);
}

} // namespace headroom
