// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/bytes.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace headroom {

/// Measurements of a step that ran on a real device.
struct MeasuredStep
{
    double stepMs = 0; ///< wall time from begin to end, the device synchronised at both
    double busyMs = 0; ///< time in which the GPU worked; the overlap of streams counts once
    double kernelMs = 0; ///< sum of the times of all kernels, copies and fills
    double withoutOpMs = 0; ///< part of kernelMs that no op launched
    double spanMs = 0; ///< time from the first kernel's start to the last kernel's end
    double overheadMs = 0; ///< CPU time spent on tracing
    double synchronizationMs = 0; ///< time in which the CPU waited for the GPU
    double cpuFactor = 0; ///< StepInfo::cpuFactor by the ops of a profiler's trace; 0: not known
    std::int64_t kernels = 0; ///< number of kernels, copies and fills; 0: times are the roofline's (see `notes`)
    std::int64_t opsWithoutKernel = 0; ///< ops without the expected kernel; times are the roofline's
    std::int64_t droppedRecords = 0;
    Bytes allocatedPeak = 0; ///< peaks of the step by the caching allocator's own statistics
    Bytes activePeak = 0;
    Bytes reservedPeak = 0;
    Bytes requestedPeak = 0;
    Bytes nonPyTorch = 0; ///< used device memory that PyTorch's allocator has not reserved, at the step's end
    std::vector<double> moduleMs; ///< by ModuleId: busy time of the module, submodules included
    std::vector<std::string> notes; ///< one sentence each: what could not be measured, and why

    friend bool operator==(const MeasuredStep&, const MeasuredStep&) = default;
};

/// The rank of a distributed job that the step belongs to; the environment variables are torchrun's.
struct RankInfo
{
    std::int64_t worldSize = 1; ///< WORLD_SIZE
    std::int64_t ranksPerNode = 1; ///< LOCAL_WORLD_SIZE: rank r is on node r / ranksPerNode
    std::int64_t rank = 0; ///< RANK

    friend bool operator==(const RankInfo&, const RankInfo&) = default;
};

/// Facts about the recording of a step that a user needs to judge or repeat the step.
struct StepInfo
{
    /// A size that another run of the model can change: "batch" or "sequence".
    struct Dimension
    {
        std::string name;
        std::int64_t value = 0; ///< in this step
        std::int64_t least = 1;
        std::int64_t most = 0; ///< 0: no bound is known

        friend bool operator==(const Dimension&, const Dimension&) = default;
    };

    std::string source; ///< "snapshot" or "profile": imported from PyTorch's memory snapshot or profiler; else empty
    std::string model; ///< as given on the command line: "demo:transformer", "train.py"
    std::string gpu; ///< name of the device spec, e.g. "a100-80gb"
    std::string device; ///< "sim", "cpu", "cuda:0"
    std::string torch; ///< version of libtorch
    std::string dtype; ///< dtype of the parameters
    std::string optimizer; ///< "adam", …
    std::string loss; ///< "sum" or "mean" of the model's output, or "output": the model returns the loss
    std::string lifetimes = "frame"; ///< "frame" or "graph": Lifetimes in core/model/source.h
    std::string policy; ///< file of the policy that the step ran under; empty: none
    bool autocast = false; ///< forward and loss ran under torch.autocast in bfloat16
    bool holdOutput = false; ///< the training loop keeps `output` alive until the next forward has returned
    bool simulated = true; ///< the step ran on the simulated GPU; times come from the roofline
    std::int64_t batch = 0;
    std::int64_t sequence = 0; ///< 0: the model has no sequence dimension
    std::int64_t steps = 2; ///< training steps run; the last is recorded
    std::int64_t placeholderValues = 0; ///< `.item()` calls answered with a placeholder value
    std::vector<std::string> remarks; ///< the recorder's sentences on what differs from a real GPU (trace/remarks.h)
    std::vector<std::pair<std::string, std::string>> settings; ///< --set KEY=VALUE, and what the recorder notes
    std::vector<Dimension> dimensions; ///< empty: the model runs at its own sizes only
    /// Arguments of `torch-headroom record` that record this step again, without -o; empty: another command recorded
    /// it.
    std::vector<std::string> arguments;
    std::optional<MeasuredStep> measured; ///< none: the step was simulated
    std::optional<RankInfo> distributed; ///< none: the script ran as one process
    /// The time model of Ops::ms: "roofline" (as recorded), "kernel", "calibration", "measured". Not in the file: the
    /// caller that opens the file sets this.
    std::string times;
    /// Time in which the CPU issues an op, as a multiple of cpu_us in resources/kernel_times.json; 0: cpu_us itself.
    /// Comes from a calibration; not in the file.
    double cpuFactor = 0;
    double toHost = 0; ///< GB/s of copies to pinned host memory; 0: the GPU's. Not in the file
    double fromHost = 0; ///< GB/s of copies from there; 0: the GPU's. Not in the file

    /// Returns the value in `settings`; empty: no such name. The text lives as
    /// long as `settings`.
    std::string_view setting(std::string_view name) const
    {
        const auto found = std::ranges::find(settings, name, [](const auto& pair) { return pair.first; });
        return found == settings.end() ? std::string_view() : found->second;
    }

    /// Returns what the script raised before the step's end; empty: the step is whole.
    std::string_view endedEarly() const { return setting("ended early"); }
};

} // namespace headroom
