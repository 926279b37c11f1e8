// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cost/kernel_constants.h"

#include "core/base/json_reader.h"
#include "core/cost/resource_tables.h"

#include <array>
#include <charconv>
#include <cstdlib>
#include <utility>

namespace headroom {
namespace {

using json::Json;
using ByCapability = KernelConstants::ByCapability;

/// The names in the file that formulas use.
// clang-format off
constexpr auto bandwidths = std::to_array<const char*>({
    "pointwise", "strided", "strided_narrow", "copy", "fill", "reduction", "outer_reduction", "scan", "softmax",
    "softmax_unaligned", "softmax_outer", "softmax_backward", "layer_norm", "layer_norm_backward", "batch_norm",
    "batch_norm_backward", "batch_norm_channels_last", "batch_norm_channels_last_backward", "batch_norm_half_weights",
    "batch_norm_half_weights_backward", "group_norm", "group_norm_backward", "embedding", "embedding_backward",
    "index", "pool", "pool_backward", "foreach", "sort", "opaque", "matmul"
});
// clang-format on
constexpr auto maths = std::to_array<const char*>({"float32", "tensor_float32", "half", "float8", "float64"});

/// A table by compute capability: {"70": 1.2, "80": 3.3}
template <class Read>
auto tableOf(const Json& object, Read read)
{
    std::map<int, decltype(read(object))> table;
    for (const auto& [capability, value] : json::mapOf(read)(object)) {
        int key = 0;
        if (std::from_chars(capability.data(), capability.data() + capability.size(), key).ec != std::errc())
            json::wrong(object, capability.c_str(), "is no compute capability: expected 80, 90, …");
        table[key] = value;
    }
    if (table.empty())
        json::expected(object, "a value by compute capability");
    return table;
}

ByCapability byCapability(const Json& object)
{
    return tableOf(object, json::number);
}

double numberIn(const Json& object, const char* name)
{
    return json::at(object, name, json::number);
}

KernelConstants::Attention attentionOf(const Json& object)
{
    using Kernel = AttentionWork::Kernel;
    KernelConstants::Attention attention;
    attention.block = numberIn(object, "block");
    attention.float32 = numberIn(json::member(object, "efficient"), "float32");
    for (const char* const phase : {"forward", "backward"}) {
        attention.causal[phase] = numberIn(json::member(object, "causal_share"), phase);
        attention.overhead[phase] = numberIn(json::member(object, "block_overhead"), phase);
        for (const auto& [kernel, name] : {std::pair{Kernel::flash, "flash"}, std::pair{Kernel::efficient, "efficient"},
                                           std::pair{Kernel::cudnn, "cudnn"}})
            for (const auto& [width, table] : json::at(json::member(object, name), phase, json::mapOf(byCapability)))
                attention.shares[kernel][phase][std::atoi(width.c_str())] = table;
    }
    return attention;
}

KernelConstants::Tiling tilingOf(const Json& object)
{
    return {numberIn(object, "full_intensity"), numberIn(object, "intensity_power"), numberIn(object, "prologue"),
            numberIn(object, "epilogue"),       numberIn(object, "wave_share"),      numberIn(object, "exposed_write"),
            numberIn(object, "least_split")};
}

KernelConstants::Float32Tiling float32TilingOf(const Json& object)
{
    return {tilingOf(object), numberIn(object, "share"), numberIn(object, "batched_side")};
}

template <class Map>
auto transparent(const Map& map)
{
    return KernelConstants::ByName<typename Map::mapped_type>(map.begin(), map.end());
}

KernelConstants read(const Json& document)
{
    KernelConstants constants;
    const auto numbers = json::mapOf(json::number);
    constants.startUs = json::at(document, "start_us", byCapability);
    constants.pcieGigabytes = json::at(document, "pcie_gigabytes_per_second", byCapability);
    constants.pageableGigabytes = json::at(document, "pageable_gigabytes_per_second", byCapability);
    constants.l2Gain = numberIn(document, "l2_gain");
    constants.gapUs = numberIn(document, "gap_us");
    for (const char* const name : bandwidths)
        constants.bandwidth[name] = numberIn(json::member(document, "bandwidth_share"), name);
    constants.extraUs = transparent(json::at(document, "extra_us", numbers));
    const Json& matmul = json::member(document, "matmul");
    for (const char* const math : maths)
        constants.products[math] = json::at(json::member(matmul, "share"), math, byCapability);
    constants.unalignedShare = json::at(matmul, "unaligned", byCapability);
    constants.tiling = tilingOf(matmul);
    constants.withoutTensorCores = tableOf(json::member(matmul, "without_tensor_cores"), float32TilingOf);
    constants.stepUs = numberIn(matmul, "step_us");
    constants.matmulExtraUs = numberIn(matmul, "extra_us");
    const Json& convolution = json::member(document, "convolution");
    for (const char* const direction : {"forward", "grad_input", "grad_weight"})
        constants.convolutions[direction] = transparent(json::at(convolution, direction, numbers));
    constants.grouped = numberIn(convolution, "grouped");
    constants.anyGroups = numberIn(convolution, "any_groups");
    constants.winograd = numberIn(convolution, "winograd");
    constants.convolutionShare = json::at(convolution, "instructions", byCapability);
    constants.leastTile = numberIn(convolution, "least_tile");
    constants.layoutShare = numberIn(convolution, "layout_share");
    constants.layoutUs = transparent(json::at(convolution, "layout_us", numbers));
    const Json& depthwise = json::member(convolution, "depthwise_gigabytes_per_multiprocessor");
    constants.depthwiseGigabytes = numberIn(depthwise, "forward");
    constants.depthwiseBackwardGigabytes = numberIn(depthwise, "backward");
    constants.attention = json::at(document, "attention", attentionOf);
    const Json& cpu = json::member(document, "cpu_us");
    constants.cpu = {numberIn(cpu, "other"), numberIn(cpu, "module"), numberIn(cpu, "tensor"),
                     json::at(cpu, "host", byCapability), transparent(json::at(cpu, "classes", numbers))};
    return constants;
}

} // namespace

double KernelConstants::convolutionFactor(std::string_view direction, std::string_view math) const
{
    const auto& factors = convolutions.find(direction)->second;
    const auto found = factors.find(math);
    return found != factors.end() ? found->second : factors.find("float32")->second;
}

double KernelConstants::Attention::share(AttentionWork::Kernel kernel, std::string_view phase, double width,
                                         const DeviceSpec& device) const
{
    const auto& widths = shares.find(kernel)->second.find(phase)->second;
    const auto wide = widths.lower_bound(static_cast<int>(width));
    return of(wide == widths.end() ? std::prev(wide)->second : wide->second, device);
}

const KernelConstants& KernelConstants::standard()
{
    static const KernelConstants constants = *kernelConstantsFromJson(kernelTimesJson(), "resources/kernel_times.json");
    return constants;
}

Result<KernelConstants> kernelConstantsFromJson(std::string_view text, const std::string& file)
{
    return json::read(text, file, read);
}

} // namespace headroom
