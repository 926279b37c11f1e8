// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cost/device_specs.h"

#include "core/base/json_reader.h"
#include "core/cost/resource_tables.h"
#include "core/cost/roofline.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

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
    spec.toHost = number("to_host");
    spec.fromHost = number("from_host");
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

namespace {

/// The words of a GPU's name in small letters: "NVIDIA GeForce RTX 4090" → nvidia, geforce, rtx, 4090.
std::vector<std::string> wordsOf(std::string_view name)
{
    std::vector<std::string> words;
    std::string word;
    for (const char c : std::string(name) + ' ') {
        const auto letter = static_cast<unsigned char>(c);
        if (std::isalnum(letter))
            word += static_cast<char>(std::tolower(letter));
        else if (!word.empty())
            words.push_back(std::exchange(word, {}));
    }
    return words;
}

std::set<std::string> setOf(const std::vector<std::string>& words)
{
    return {words.begin(), words.end()};
}

/// Words that people leave out of a GPU's name: "rtx", and the memory, as "24gb".
bool isOptional(const std::string& word)
{
    return word == "rtx" || (std::isdigit(static_cast<unsigned char>(word.front())) && word.ends_with("gb"));
}

/// The known GPUs that a text may mean: all words of the text are words of the GPU's name or title, and the text leaves
/// out no word of the name that others do not leave out.
std::vector<DeviceSpec> gpusMeantBy(std::string_view text)
{
    const std::set<std::string> given = setOf(wordsOf(text));
    std::vector<DeviceSpec> result;
    for (const DeviceSpec& spec : deviceSpecs()) {
        const std::set<std::string> name = setOf(wordsOf(spec.name));
        std::set<std::string> known = setOf(wordsOf(spec.title));
        known.insert(name.begin(), name.end());
        known.insert("nvidia");
        const bool isMeant = std::ranges::includes(known, given)
            && std::ranges::all_of(name, [&](const auto& word) { return isOptional(word) || given.contains(word); });
        if (isMeant)
            result.push_back(spec);
    }
    return result;
}

} // namespace

Result<DeviceSpec> findDeviceSpec(std::string_view name)
{
    const auto specs = deviceSpecs();
    const auto found = std::ranges::find(specs, name, &DeviceSpec::name);
    if (found != specs.end())
        return *found;
    const std::vector<DeviceSpec> meant = gpusMeantBy(name);
    std::string names;
    for (const DeviceSpec& spec : meant.empty() ? specs : std::span<const DeviceSpec>(meant))
        names += (names.empty() ? "" : ", ") + spec.name;
    return badInput("unknown GPU '" + std::string(name) + "': expected " + names);
}

std::string gpuName(std::string_view text)
{
    const std::vector<DeviceSpec> meant = gpusMeantBy(text);
    return meant.size() == 1 ? meant.front().name : std::string(text);
}

namespace {

/// Flops of a multiprocessor in a cycle, a multiply-add counted as two.
struct Rates
{
    double float32 = 128;
    double tensorFloat32 = 128;
    double half = 256;
    double float8 = 256;
    double float64 = 4;
};

Rates ratesOf(int computeCapability)
{
    if (computeCapability >= 120) // consumers' Blackwell
        return {256, 512, 1024, 2048, 4};
    if (computeCapability >= 100)
        return {256, 4096, 8192, 16384, 128};
    if (computeCapability >= 90)
        return {256, 2048, 4096, 8192, 256};
    if (computeCapability == 89)
        return {256, 512, 1024, 2048, 4};
    if (computeCapability > 80) // consumers' Ampere
        return {256, 256, 512, 512, 4};
    if (computeCapability == 80)
        return {128, 1024, 2048, 2048, 128};
    if (computeCapability >= 70)
        return {128, 128, 1024, 1024, computeCapability == 70 ? 64.0 : 4.0};
    return {256, 256, 256, 256, 8};
}

bool isCard(const DeviceSpec& spec, const GpuFacts& facts)
{
    // A virtual GPU has a part of the memory, an export version a part of the multiprocessors.
    const double ratio = static_cast<double>(facts.memory) / static_cast<double>(spec.memory);
    return spec.computeCapability == facts.computeCapability && spec.multiprocessors == facts.multiprocessors
        && std::abs(ratio - 1) < 0.05;
}

/// "NVIDIA GeForce RTX 5070" → "nvidia-geforce-rtx-5070-12gb".
std::string nameOf(const GpuFacts& facts)
{
    std::string name;
    for (const std::string& word : wordsOf(facts.name))
        name += word + '-';
    return name + std::to_string(std::llround(static_cast<double>(facts.memory) / static_cast<double>(GiB))) + "gb";
}

/// The clocks and the bus of an entry of resources/devices.json.
GpuFacts factsOf(const json::Json& device)
{
    constexpr int kHzPerMHz = 1000;
    const auto number = [&](const char* key) { return static_cast<int>(json::at(device, key, json::number)); };
    GpuFacts facts;
    facts.clockKHz = number("clock_mhz") * kHzPerMHz;
    facts.memoryClockKHz = number("memory_clock_mhz") * kHzPerMHz;
    facts.busWidth = number("memory_bits");
    return facts;
}

} // namespace

GpuFacts gpuFactsOf(const DeviceSpec& spec)
{
    static const auto known = json::read(devicesJson(), "devices.json", [](const json::Json& document) {
                                  return json::at(document, "devices", json::listOf(factsOf));
                              }).value();
    const auto specs = deviceSpecs();
    const auto place = std::ranges::find(specs, spec.name, &DeviceSpec::name);
    GpuFacts facts = place == specs.end() ? GpuFacts() : known[static_cast<std::size_t>(place - specs.begin())];
    facts.name = spec.title;
    facts.memory = spec.memory;
    facts.computeCapability = spec.computeCapability;
    facts.multiprocessors = spec.multiprocessors;
    return facts;
}

DeviceSpec deviceSpecOf(const GpuFacts& facts)
{
    for (const DeviceSpec& spec : deviceSpecs())
        if (isCard(spec, facts))
            return spec;
    const Rates rates = ratesOf(facts.computeCapability);
    const double cycles = static_cast<double>(facts.multiprocessors) * facts.clockKHz * 1e3;
    DeviceSpec spec;
    spec.name = nameOf(facts);
    spec.title = facts.name;
    spec.memory = facts.memory;
    // Both edges of the clock carry a bit of each line.
    spec.gigabytesPerSecond = 2.0 * facts.memoryClockKHz * 1e3 * facts.busWidth / 8 / 1e9;
    spec.float32Flops = cycles * rates.float32;
    spec.tensorFloat32Flops = cycles * rates.tensorFloat32;
    spec.halfFlops = cycles * rates.half;
    spec.float8Flops = cycles * rates.float8;
    spec.float64Flops = cycles * rates.float64;
    spec.computeCapability = facts.computeCapability;
    spec.multiprocessors = facts.multiprocessors;
    return spec;
}

} // namespace headroom
