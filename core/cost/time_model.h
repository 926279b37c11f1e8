// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/cost/op_work.h"
#include "core/cost/roofline.h"
#include "core/trace/step_trace.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace headroom {

struct KernelConstants;

/// The time model `kernel`: the time of an op's kernels on a GPU. A kernel takes a start time plus the larger of two
/// times: moving its bytes at a share of the GPU's bandwidth, and computing at a share of its peak. The shares depend
/// on class, element type, alignment and size. Constants are in resources/kernel_times.json, with the source of each.
class KernelModel
{
public:
    /// The model with the constants compiled into the program.
    static const KernelModel& standard();
    /// The model with other constants, for fits. Errors (badInput) name `file`.
    static Result<KernelModel> fromJson(std::string_view text, const std::string& file);

    /// Milliseconds on the GPU; 0 for ops without a kernel.
    double ms(const OpWork& work, const DeviceSpec& device) const;

private:
    explicit KernelModel(std::shared_ptr<const KernelConstants> constants);

    std::shared_ptr<const KernelConstants> constants_;
};

/// A model of the time that an op takes on a GPU.
enum class TimeModel : std::uint8_t {
    roofline, ///< PyTorch's RuntimeEstimator (core/cost/roofline.h)
    kernel ///< Headroom's model of kernels (core/cost/time_model.h)
};
std::string_view timeModelName(TimeModel model); ///< "roofline", "kernel"

/// The source of a step's op times: "roofline", "kernel", "calibration" or "measured".
std::string timesOf(const StepInfo& info);
/// The same in words: "of the time model `kernel` on a100-80gb".
std::string timesTitle(const StepInfo& info);

/// The time in ms of each op on a GPU. `kernel` needs signatures (StepTrace::Signatures); an op without one has the
/// roofline's time.
std::vector<double> opTimes(const StepTrace& trace, const DeviceSpec& device, TimeModel model);

/// The step with other times, on another GPU; the new step shares all other columns. `times` becomes StepInfo::times.
StepTracePtr withOpTimes(const StepTracePtr& step, std::vector<double> ms, const std::string& gpu,
                         std::string_view times);

/// The work of an op of a step, from the op's name and signature.
OpWork workOf(const StepTrace& trace, OpId op);

} // namespace headroom
