// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/checkpoint/ambient_state.h"

#include "core/device/hosted_memory.h"

#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <ATen/autocast_mode.h>

#include <algorithm>
#include <mutex>

namespace headroom {
namespace {

using Generators = std::vector<std::pair<at::Generator, at::Tensor>>;

/// States are tensors on the CPU, which is no memory of the device also where the CPU stands for one.
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

/// Devices of the tensors among `inputs`, each once, the CPU left out. As in PyTorch, tensors inside of lists do not
/// count.
std::vector<at::Device> devicesOf(const Values& inputs)
{
    std::vector<at::Device> devices;
    for (const c10::IValue& input : inputs) {
        if (!input.isTensor() || !input.toTensor().defined())
            continue;
        const at::Device device = input.toTensor().device();
        const bool draws = !device.is_cpu() && !device.is_meta();
        if (draws && std::find(devices.begin(), devices.end(), device) == devices.end())
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
            autocasts_.push_back(
                {type, at::autocast::is_autocast_enabled(type), at::autocast::get_autocast_dtype(type)});
}

AmbientState::Replay::Replay(const AmbientState& state)
    : autocastCache_(at::autocast::is_autocast_cache_enabled())
{
    for (const auto& [generator, then] : state.generators_)
        generators_.emplace_back(generator, stateOf(generator));
    setStates(state.generators_);
    for (const AmbientState::Autocast& autocast : state.autocasts_) {
        autocasts_.push_back({autocast.device, at::autocast::is_autocast_enabled(autocast.device),
                              at::autocast::get_autocast_dtype(autocast.device)});
        at::autocast::set_autocast_enabled(autocast.device, autocast.enabled);
        at::autocast::set_autocast_dtype(autocast.device, autocast.dtype);
        at::autocast::increment_nesting();
    }
    at::autocast::set_autocast_cache_enabled(state.autocastCache_);
}

AmbientState::Replay::~Replay()
{
    for (auto autocast = autocasts_.rbegin(); autocast != autocasts_.rend(); ++autocast) {
        // The outermost autocast of a thread drops the casts of weights that it made.
        if (at::autocast::decrement_nesting() == 0)
            at::autocast::clear_cache();
        at::autocast::set_autocast_enabled(autocast->device, autocast->enabled);
        at::autocast::set_autocast_dtype(autocast->device, autocast->dtype);
    }
    at::autocast::set_autocast_cache_enabled(autocastCache_);
    setStates(generators_);
}

} // namespace headroom
