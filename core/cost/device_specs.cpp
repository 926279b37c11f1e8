// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/base/json_reader.h"
#include "core/cost/resource_tables.h"
#include "core/cost/roofline.h"

#include <algorithm>
#include <cmath>

namespace headroom {
namespace {

DeviceSpec specOf(const json::Json& device)
{
    const auto number = [&](const char* key) { return json::at(device, key, json::number); };
    DeviceSpec spec;
    spec.name = json::at(device, "name", json::string);
    spec.title = json::at(device, "title", json::string);
    spec.memory = static_cast<Bytes>(std::floor(number("memory_gib") * static_cast<double>(GiB)));
    spec.gigabytesPerSecond = number("gigabytes_per_second");
    spec.float32Flops = number("float32");
    spec.tensorFloat32Flops = number("tensor_float32");
    spec.halfFlops = number("half");
    spec.float8Flops = number("float8");
    spec.float64Flops = number("float64");
    if (device.contains("sustained_float32"))
        spec.sustainedFloat32 = number("sustained_float32");
    spec.computeCapability = static_cast<int>(number("compute_capability"));
    spec.multiprocessors = static_cast<int>(number("multiprocessors"));
    spec.l2 = static_cast<Bytes>(number("l2_mib")) * MiB;
    spec.context = static_cast<Bytes>(number("context_mib")) * MiB;
    return spec;
}

} // namespace

std::span<const DeviceSpec> deviceSpecs()
{
    static const auto specs = json::read(devicesJson(), "devices.json", [](const json::Json& document) {
                                  return json::at(document, "devices", json::listOf(specOf));
                              }).value();
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
