// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"
#include "core/cost/op_work.h"

#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <string_view>

namespace headroom {

/// The contents of resources/kernel_times.json, under the names in that file. A missing name is an error when the file
/// is read.
struct KernelConstants
{
    /// A value by compute capability: the entry of the largest key that is not above the GPU's.
    using ByCapability = std::map<int, double>;
    template <class T>
    using ByName = std::map<std::string, T, std::less<>>;

    struct Attention
    {
        double block = 0;
        double float32 = 0; ///< factor of the share for float32
        ByName<double> causal, overhead; ///< by "forward", "backward"
        std::map<AttentionWork::Kernel, ByName<std::map<int, ByCapability>>> shares; ///< by phase, then width of a head

        double share(AttentionWork::Kernel kernel, std::string_view phase, double width,
                     const DeviceSpec& device) const;
        double causalShare(std::string_view phase) const { return causal.find(phase)->second; }
        double blockOverhead(std::string_view phase) const { return overhead.find(phase)->second; }
    };

    /// How kernels cut matrix products into tiles.
    struct Tiling
    {
        double fullIntensity = 1; ///< products for each loaded element from which on loads do not count
        double intensityPower = 1;
        double prologue = 0; ///< of a tile, as steps along k
        double epilogue = 0;
        double waveShare = 1; ///< share of a last, partly idle wave that is waited for
        double exposedWrite = 0; ///< share of the time to write a product that no multiplication hides
        double leastSplit = 1; ///< least steps along k of a part, if blocks share a tile's products
    };
    /// The same for products in float32, which take no tensor cores.
    struct Float32Tiling : Tiling
    {
        double share = 1; ///< of the peak
        double batchedSide = 1; ///< least rows and columns of a tile of batched products
    };

    /// CPU time to issue ops, in microseconds.
    struct Cpu
    {
        double otherUs = 0; ///< an op of a class without an entry in opUs
        double moduleUs = 0; ///< a call of a module
        double tensorUs = 0; ///< each tensor of an argument list, as in optimizers
        ByCapability host; ///< factor for the CPUs of machines with such GPUs
        std::map<std::string, double, std::less<>> opUs; ///< by name of the WorkClass
    };

    /// The constants of the file compiled into the program.
    static const KernelConstants& standard();

    double l2Gain = 1;
    double gapUs = 0; ///< idle time of the GPU between two kernels
    double opaquePeak = 0.5;
    double matmulExtraUs = 0;
    Tiling tiling; ///< of tensor cores and of convolutions
    std::map<int, Float32Tiling> withoutTensorCores; ///< by compute capability
    double stepUs = 0; ///< least time of a step of a tile along k
    double grouped = 1;
    double anyGroups = 1; ///< share of float32's peak of channels last in groups that are no multiple of 32
    double winograd = 1;
    double layoutShare = 1;
    double leastTile = 1; ///< elements of the smallest tile of convolutions
    double depthwiseGigabytes = 1; ///< GB/s of a multiprocessor
    double depthwiseBackwardGigabytes = 1;
    ByCapability convolutionShare, startUs, pcieGigabytes, pageableGigabytes, unalignedShare;
    ByName<double> bandwidth, extraUs;
    ByName<ByCapability> products; ///< by element type
    ByName<ByName<double>> convolutions; ///< by direction and element type
    ByName<double> layoutUs; ///< by element type: fixed time of the copies to channels last and back
    Attention attention;
    Cpu cpu;

    double start(const DeviceSpec& device) const { return of(startUs, device); }
    /// GB/s of a copy between the GPU and the host. A copy that the program waits for is of pageable memory: the CPU
    /// copies it into a pinned buffer first. Other copies are of pinned memory.
    double pcie(const OpWork& transfer, const DeviceSpec& device) const
    {
        if (!transfer.waits)
            return transfer.toHost ? device.toHost : device.fromHost;
        return of(transfer.toHost ? pcieGigabytes : pageableGigabytes, device);
    }
    /// The share of the peak that the instructions of convolutions reach.
    double convolutionInstructions(const DeviceSpec& device) const { return of(convolutionShare, device); }
    double unaligned(const DeviceSpec& device) const { return of(unalignedShare, device); }
    const Float32Tiling& float32Tiling(const DeviceSpec& device) const { return of(withoutTensorCores, device); }
    double share(std::string_view name) const { return bandwidth.find(name)->second; }
    double extra(std::string_view name) const
    {
        const auto found = extraUs.find(name);
        return found == extraUs.end() ? 0 : found->second;
    }
    double matmulShare(std::string_view math, const DeviceSpec& device) const
    {
        return of(products.find(math)->second, device);
    }
    double copiesUs(std::string_view math) const
    {
        const auto found = layoutUs.find(math);
        return found == layoutUs.end() ? 0 : found->second;
    }
    double convolutionFactor(std::string_view direction, std::string_view math) const;

    template <class T>
    static const T& of(const std::map<int, T>& table, const DeviceSpec& device)
    {
        const auto above = table.upper_bound(device.computeCapability);
        return above == table.begin() ? above->second : std::prev(above)->second;
    }
};

/// Errors (badInput) name `file` and what is missing.
Result<KernelConstants> kernelConstantsFromJson(std::string_view text, const std::string& file);

} // namespace headroom
