// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/bytes.h"
#include "core/base/error.h"

#include <span>
#include <string>
#include <string_view>

namespace headroom {

/// The properties of a GPU that time models need. Source: resources/devices.json, compiled in, with the source of each
/// figure. Rates count a multiply-add as two.
struct DeviceSpec
{
    std::string name; ///< value of --gpu: "a100-80gb"
    std::string title; ///< "NVIDIA A100-SXM4-80GB"
    Bytes memory = 0; ///< capacity as PyTorch reports, a little less than the nominal capacity
    double gigabytesPerSecond = 0; ///< DRAM, 1e9 bytes
    double float32Flops = 0; ///< peak per second without tensor cores
    double tensorFloat32Flops = 0;
    double halfFlops = 0; ///< float16, and bfloat16 from compute capability 8.0
    int computeCapability = 0; ///< 80, 90, …; selects the attention kernel
    int multiprocessors = 0; ///< multi_processor_count of torch.cuda.get_device_properties()
    double float64Flops = 0;
    double sustainedFloat32 = 1; ///< share of float32Flops that a small power limit leaves to matrix products
    double float8Flops = 0;
    Bytes l2 = 0; ///< L2 cache, in bytes
    Bytes context = 0; ///< memory of CUDA's context with loaded kernels; 0: unknown
    double toHost = 25; ///< GB/s of a large copy to pinned host memory that is reused; by default of PCIe 4 x16
    double fromHost = 25; ///< GB/s of a large copy from such memory
};

/// The default of --gpu.
inline constexpr std::string_view defaultDeviceName = "h100-80gb";

std::span<const DeviceSpec> deviceSpecs();
Result<DeviceSpec> findDeviceSpec(std::string_view name); ///< the error lists the names

/// Returns the name of the known GPU that people mean by a text: "rtx-4090-24gb" by "RTX 4090", "h100-80gb" by "H100".
/// A text that means no known GPU, or several ("a100"), is returned unchanged.
std::string gpuName(std::string_view text);

/// The properties of a GPU, by CUDA.
struct GpuFacts
{
    std::string name; ///< "NVIDIA H200"
    Bytes memory = 0;
    int computeCapability = 0; ///< 90
    int multiprocessors = 0;
    int clockKHz = 0; ///< highest clock of the multiprocessors
    int memoryClockKHz = 0;
    int busWidth = 0; ///< bits
};

/// What CUDA reports of a GPU of resources/devices.json.
GpuFacts gpuFactsOf(const DeviceSpec& spec);

/// The DeviceSpec of a GPU, from resources/devices.json or with rates computed from clocks and architecture.
DeviceSpec deviceSpecOf(const GpuFacts& facts);

} // namespace headroom
