// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"
#include "core/cost/op_work.h"

#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace headroom {

/// What resources/kernel_times.json holds, by the names that it has there. A name that a formula asks for and the file
/// lacks is an error of the file, found when it is read.
struct KernelConstants
{
    /// A value by compute capability: that of the largest key that is not above the card's.
    using ByCapability = std::map<int, double>;
    template <class T>
    using ByName = std::map<std::string, T, std::less<>>;

    struct Attention
    {
        double block = 0;
        double float32 = 0; ///< factor of the share
        ByName<double> causal, overhead; ///< by "forward", "backward"
        std::map<AttentionWork::Kernel, ByName<std::map<int, ByCapability>>> shares; ///< by phase and width

        double share(AttentionWork::Kernel kernel, std::string_view phase, double width,
                     const DeviceSpec& device) const;
        double causalShare(std::string_view phase) const { return causal.find(phase)->second; }
        double blockOverhead(std::string_view phase) const { return overhead.find(phase)->second; }
    };

    /// Microseconds that the CPU takes to issue.
    struct Cpu
    {
        double otherUs = 0; ///< an op of a class without an own figure
        double moduleUs = 0; ///< a module's call
        double tensorUs = 0; ///< a tensor of a list, as optimizers pass them
        ByCapability host; ///< factor: how slow the CPUs are that such cards were measured with
        std::map<std::string, double, std::less<>> opUs; ///< by class
    };

    /// The constants that the program was built with.
    static const KernelConstants& standard();

    double l2Gain = 1;
    double gapUs = 0; ///< between the end of a kernel and the begin of the next
    double opaquePeak = 0.5;
    double matmulExtraUs = 0;
    double fullIntensity = 1;
    double intensityPower = 1;
    double prologue = 0;
    double epilogue = 0;
    double stepUs = 0; ///< that a multiply-add of a tile takes at least, along k
    double waveShare = 1;
    double exposedWrite = 0; ///< share of the time to write a product that no multiplication hides
    double grouped = 1;
    double winograd = 1;
    double layoutShare = 1;
    double leastTile = 1; ///< elements of the smallest tile of convolutions
    double depthwiseGigabytes = 1; ///< that a multiprocessor moves in a second
    double depthwiseBackwardGigabytes = 1;
    ByCapability convolutionShare, startUs, pcieGigabytes, pageableGigabytes, unalignedShare;
    ByName<double> bandwidth, extraUs;
    ByName<ByCapability> products; ///< by element type
    ByName<ByName<double>> convolutions; ///< by direction and element type
    Attention attention;
    Cpu cpu;

    double start(const DeviceSpec& device) const { return of(startUs, device); }
    /// A copy that the program waits for is from memory that is not pinned: the CPU moves it into a buffer first.
    double pcie(const OpWork& transfer, const DeviceSpec& device) const
    {
        return of(transfer.waits && !transfer.toHost ? pageableGigabytes : pcieGigabytes, device);
    }
    /// What of the peak the instructions of convolutions reach.
    double convolutionInstructions(const DeviceSpec& device) const { return of(convolutionShare, device); }
    double unaligned(const DeviceSpec& device) const { return of(unalignedShare, device); }
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
    double convolutionFactor(std::string_view direction, std::string_view math) const;

    static double of(const ByCapability& table, const DeviceSpec& device);
};

/// Errors (badInput) name `file` and what is missing.
Result<KernelConstants> kernelConstantsFromJson(std::string_view text, const std::string& file);

/// The text of resources/kernel_times.json as it was when this program was configured.
std::string_view kernelTimesJson();

} // namespace headroom
