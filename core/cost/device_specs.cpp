// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cost/devices_json.h"
#include "core/cost/roofline.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace headroom {
namespace {

std::vector<DeviceSpec> parseDevices()
{
    const nlohmann::json document = nlohmann::json::parse(devicesJson());
    std::vector<DeviceSpec> specs;
    for (const auto& device : document.at("devices")) {
        DeviceSpec spec;
        spec.name = device.at("name").get<std::string>();
        spec.title = device.at("title").get<std::string>();
        spec.memory = static_cast<Bytes>(std::floor(device.at("memory_gib").get<double>() * static_cast<double>(GiB)));
        spec.gigabytesPerSecond = device.at("gigabytes_per_second").get<double>();
        spec.float32Flops = device.at("float32").get<double>();
        spec.tensorFloat32Flops = device.at("tensor_float32").get<double>();
        spec.halfFlops = device.at("half").get<double>();
        spec.float8Flops = device.at("float8").get<double>();
        spec.float64Flops = device.at("float64").get<double>();
        spec.computeCapability = device.at("compute_capability").get<int>();
        spec.multiprocessors = device.at("multiprocessors").get<int>();
        specs.push_back(std::move(spec));
    }
    return specs;
}

} // namespace

std::span<const DeviceSpec> deviceSpecs()
{
    static const std::vector<DeviceSpec> specs = parseDevices();
    return specs;
}

Result<DeviceSpec> findDeviceSpec(std::string_view name)
{
    const auto specs = deviceSpecs();
    const auto found = std::ranges::find(specs, name, &DeviceSpec::name);
    if (found != specs.end())
        return *found;
    std::string names;
    for (const DeviceSpec& spec : specs)
        names += (names.empty() ? "" : ", ") + spec.name;
    return badInput("unknown GPU '" + std::string(name) + "': expected one of " + names);
}

} // namespace headroom
