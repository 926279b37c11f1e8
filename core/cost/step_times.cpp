// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cost/step_times.h"

#include "core/cost/collective_model.h"

#include <algorithm>

namespace headroom {
namespace {

/// The reason why PyTorch would run other ops of this step on the card; empty: the same ops. Attention kernels
/// are chosen by compute capability, and without tensor cores for bfloat16 programs use another type.
std::string otherKernels(const StepTrace& trace, const DeviceSpec& recorded, const DeviceSpec& wanted)
{
    const auto generation = [](const DeviceSpec& device) {
        return device.computeCapability >= 90 ? 90 : device.computeCapability >= 80 ? 80 : 70;
    };
    if (generation(recorded) == generation(wanted))
        return {};
    bool isBFloat16 = false;
    for (std::uint32_t row = 0; row < trace.ops.size(); ++row) {
        if (workOf(trace, OpId(row)).kind == WorkClass::attention)
            return "attention would run in other kernels there";
        isBFloat16 = isBFloat16 || trace.ops.dtype[OpId(row)] == DType::bfloat16;
    }
    const bool bothHave = std::min(recorded.computeCapability, wanted.computeCapability) >= 80;
    return isBFloat16 && !bothHave ? "one of the two GPUs has no tensor cores for bfloat16" : std::string();
}

} // namespace

Status standsFor(const StepTrace& trace, const std::string& gpu)
{
    const auto device = findDeviceSpec(gpu);
    if (!device)
        return device.error();
    const std::string& own = trace.info.gpu;
    const auto recorded = findDeviceSpec(own);
    if (!recorded)
        return badInput("the step was recorded for " + own
                        + ", a GPU that Headroom does not know: record the step with --gpu " + gpu);
    if (const std::string why = otherKernels(trace, *recorded, *device); !why.empty())
        return badInput("the step was recorded for " + own + " and cannot stand for " + gpu + ": " + why
                        + "; record the step with --gpu " + gpu);
    return {};
}

namespace {

/// The step with times of collectives by the topology; a step without collectives is unchanged.
Result<StepTracePtr> withTopology(StepTracePtr step, const std::string& name, bool slowed)
{
    const Result<Topology> topology = name.empty() ? topologyOf(step->info.gpu) : findTopology(name);
    if (!topology)
        return topology.error();
    if (step->collectives.size() == 0)
        return step;
    const auto ms = step->ops.ms.rows;
    return withOpTimes(step, withCollectives(*step, *topology, {ms.begin(), ms.end()}, slowed), step->info.gpu,
                       step->info.times);
}

/// The step with times of ops by the model and the card, or by a calibration, collectives like other ops.
Result<TimedStep> withOwnTimes(StepTracePtr step, const TimeChoice& choice)
{
    const bool named = choice.calibration != "auto" && choice.calibration != "none";
    const bool moves = !choice.gpu.empty() && choice.gpu != step->info.gpu;
    if (!step->info.simulated) {
        if (named)
            return badInput("the step has measured times, and " + choice.calibration
                            + " cannot replace measured times: expected a simulated step");
        if (moves)
            return badInput("the step was measured on " + (step->info.gpu.empty() ? step->info.device : step->info.gpu)
                            + " and says nothing of " + choice.gpu + ": record the step with --gpu " + choice.gpu);
        return TimedStep{std::move(step), {}};
    }
    const std::string gpu = moves ? choice.gpu : step->info.gpu;
    if (moves)
        if (const Status stands = standsFor(*step, gpu); !stands)
            return stands.error();
    const auto device = findDeviceSpec(gpu);
    StepTimes times;
    times.withoutShapes = choice.model == TimeModel::kernel && step->ops.signature.size() == 0;
    times.model = times.withoutShapes ? TimeModel::roofline : choice.model;
    // A step with times of another program, or of an unknown GPU, is unchanged.
    if (device && (moves || times.model == TimeModel::kernel))
        step = withOpTimes(step, opTimes(*step, *device, times.model), gpu, timeModelName(times.model));

    const std::filesystem::path file = named ? std::filesystem::path(choice.calibration) : calibrationFile(gpu);
    const auto calibration = readCalibration(file);
    if (!calibration && choice.calibration != "none")
        return calibration.error();
    if (!calibration || !*calibration) {
        if (named)
            return badInput(choice.calibration
                            + ": there is no such file; torch-headroom calibrate writes a calibration");
        return TimedStep{std::move(step), times};
    }
    const bool wanted = choice.calibration != "none";
    if (wanted && (*calibration)->gpu != gpu)
        return badInput(file.string() + " is of " + (*calibration)->gpu + ", and the step is of " + gpu);
    times.gpu = gpu;
    times.file = file;
    times.calibrated = wanted && !(*calibration)->curves.empty();
    if (wanted)
        step = calibrated(step, **calibration);
    return TimedStep{std::move(step), times};
}

} // namespace

Result<TimedStep> withTimes(StepTracePtr step, const TimeChoice& choice)
{
    auto timed = withOwnTimes(std::move(step), choice);
    if (!timed || !timed->step->info.simulated)
        return timed;
    const bool byKernel = timed->times.model == TimeModel::kernel && !timed->times.calibrated;
    auto priced = withTopology(std::move(timed->step), choice.topology, byKernel);
    if (!priced)
        return priced.error();
    timed->step = *std::move(priced);
    return timed;
}

} // namespace headroom
