// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/record/verify_command.h"

#include "core/base/try.h"
#include "core/checkpoint/ops_verification.h"
#include "core/checkpoint/reproducible.h"
#include "core/device/hosted_memory.h"
#include "core/device/real_device.h"
#include "core/device/simulated_device.h"
#include "core/joint/ops_request.h"

#include <CLI/CLI.hpp>

#include <numeric>
#include <utility>

namespace headroom {
namespace {

using Report = VerificationReport;

Report::Work workOf(const OpsExecuted& executed)
{
    return {executed.savedBytes, executed.recomputeFlops, executed.repeatedOps};
}

Report::Peaks peaksOf(const AllocatorPeaks& peaks)
{
    return {peaks.requested, peaks.allocated, peaks.active, peaks.reserved};
}

Report::Values valuesOf(const OpsValues& compared, const std::string& device)
{
    Report::Values values = headroom::valuesOf(static_cast<const GradientComparison&>(compared), device);
    values.buffer = compared.buffer;
    return values;
}

/// The step under the plan on one device, beside the plain one.
struct Executed
{
    OpsPlan plan;
    OpsVerification step;
    Bytes baselinePeak = 0;
    double stepFlops = 0;
};

void take(const Executed& executed, Report& report)
{
    const OpsVerification& step = executed.step;
    report.memory = step;
    report.baselinePeak = executed.baselinePeak;
    report.predictedPeak = step.predictedPeak;
    report.ops->fraction = executed.plan.fraction;
    report.ops->planned = workOf(step.planned);
    report.ops->executed = workOf(step.executed);
    if (report.simulated)
        return;
    report.ops->plainPeaks = peaksOf(step.plainPeaks);
    report.ops->plannedPeaks = peaksOf(step.plannedPeaks);
}

/// The plan to verify, which is made for the step on each device.
struct WantedPlan
{
    OpsRequest request;
    std::string opTimes; ///< file
    std::string plan; ///< file; empty: `request` is planned
    bool monotone = false;
};

Result<WantedPlan> readWantedPlan(const RecordOptions& options)
{
    WantedPlan wantedPlan;
    wantedPlan.plan = options.opsPlan;
    if (!wantedPlan.plan.empty())
        return wantedPlan;
    if (!CLI::detail::lexical_cast(options.memoryBudget, wantedPlan.request.fraction)
        || !(wantedPlan.request.fraction >= 0 && wantedPlan.request.fraction <= 1))
        return badInput("--memory-budget `" + options.memoryBudget
                        + "`: expected a share from 0 (keep nothing) to 1 (keep what is kept by default), as 0.5");
    ASSIGN_OR_RETURN(wantedPlan.request.solver, parseOpsSolver(options.solver));
    ASSIGN_OR_RETURN(wantedPlan.request.runtime, parseOpsRuntime(options.runtime));
    if (!options.opTimes.empty() && wantedPlan.request.runtime != OpsRuntime::measured)
        return badInput("--op-times has measured times: expected --runtime measured as well");
    wantedPlan.opTimes = options.opTimes;
    wantedPlan.monotone = options.monotone;
    return wantedPlan;
}

/// A model with the plan of its step.
struct Planned
{
    std::unique_ptr<ModelSource> model;
    OpsPlanner planner;
    OpsPlan plan;
};

Result<OpsPlan> planOf(const OpsPlanner& planner, const WantedPlan& wantedPlan)
{
    const StepTrace& trace = *planner.graph().trace;
    if (!wantedPlan.plan.empty()) {
        ASSIGN_OR_RETURN(const auto given, readOpsPlan(wantedPlan.plan, trace));
        return planner.planSaving(given.saved, given.fraction);
    }
    OpsRequest ops = wantedPlan.request;
    if (!wantedPlan.opTimes.empty()) {
        ASSIGN_OR_RETURN(ops.measuredMs, readOpTimes(wantedPlan.opTimes, trace));
    }
    return wantedPlan.monotone ? planner.planMonotone(ops) : planner.plan(ops);
}

Result<Planned> planOn(at::Device device, const StepRequest& request, const WantedPlan& wantedPlan)
{
    ModelRequest there = request.model;
    there.device = device;
    ASSIGN_OR_RETURN(auto model, openModel(there));
    ASSIGN_OR_RETURN(const auto trace, StepRunner(*model, request.step).record(request.info, request.gpu, {}));
    ASSIGN_OR_RETURN(auto planner, OpsPlanner::create(trace));
    ASSIGN_OR_RETURN(auto plan, planOf(planner, wantedPlan));
    return Planned{std::move(model), std::move(planner), std::move(plan)};
}

Result<OpsValues> valuesOn(at::Device device, const StepRequest& request, const WantedPlan& wantedPlan)
{
    ASSIGN_OR_RETURN(const auto planned, planOn(device, request, wantedPlan));
    return compareValues(*planned.model, request.step, planned.planner, planned.plan);
}

/// Records the step on `device`, and runs it by the plan of its ops.
Result<Executed> executeOn(at::Device device, const StepRequest& request, const WantedPlan& wantedPlan,
                           RealDevice* real, const ProgressReport& progress)
{
    progress("without the plan", 0);
    ASSIGN_OR_RETURN(const auto planned, planOn(device, request, wantedPlan));
    const StepTrace& trace = *planned.planner.graph().trace;
    progress("by the plan", 0.4);
    ASSIGN_OR_RETURN(auto step, verifyOps(*planned.model, request.step, planned.planner, planned.plan, real));
    return Executed{planned.plan, std::move(step), planned.planner.recordedPeak(),
                    std::accumulate(trace.ops.flops.begin(), trace.ops.flops.end(), 0.0)};
}

/// Compares values on the CPU, where the step has other ops and therefore another plan for the same fraction. `wanted`:
/// however large the step is, and memory, too; an error of the model is an error.
Status compareOnCpu(const StepRequest& request, WantedPlan wantedPlan, double stepFlops, bool wanted, Report& report)
{
    report.values.whyNot = withoutCpu(report.baselinePeak, stepFlops, wanted);
    if (!report.values.whyNot.empty())
        return {};
    wantedPlan.request.fraction = report.ops->fraction;
    wantedPlan.opTimes.clear();
    wantedPlan.plan.clear();
    const sim::HostedMemory hosted;
    if (wanted) {
        ASSIGN_OR_RETURN(const auto onCpu, executeOn(at::kCPU, request, wantedPlan, nullptr, [](auto...) {}));
        report.ops->cpu = Report::OnDevice{onCpu.step, onCpu.step.predictedPeak, workOf(onCpu.step.planned),
                                           workOf(onCpu.step.executed)};
    }
    const auto values = valuesOn(at::kCPU, request, wantedPlan);
    if (values)
        report.values = valuesOf(*values, "the CPU");
    else if (wanted)
        return values.error();
    else
        report.values.whyNot = values.error().message; // for example a file without weights
    return {};
}

/// Verifies memory on the simulated device, and values on the CPU.
Status verifySimulated(StepRequest& request, const WantedPlan& wantedPlan, bool onCpu, const ProgressReport& progress,
                       Report& report)
{
    RETURN_IF_ERROR(openDevice(request, {wantedPlan.plan, wantedPlan.opTimes}));
    report.device = request.gpu.title;
    ASSIGN_OR_RETURN(const auto executed, executeOn(sim::device(), request, wantedPlan, nullptr, progress));
    take(executed, report);
    progress("gradients", 0.7);
    return compareOnCpu(request, wantedPlan, executed.stepFlops, onCpu, report);
}

/// Verifies both on a GPU. Reproducible kernels, which may take other memory, run for the values only.
Status verifyReal(StepRequest& request, const WantedPlan& wantedPlan, const ProgressReport& progress, Report& report)
{
    RETURN_IF_ERROR(openDevice(request, {wantedPlan.plan, wantedPlan.opTimes}));
    const std::shared_ptr<RealDevice> real = std::exchange(request.step.real, nullptr);
    report.device = real->spec().title;
    const sim::HostedMemory hosted(real);
    ASSIGN_OR_RETURN(const auto executed, executeOn(real->device(), request, wantedPlan, real.get(), progress));
    take(executed, report);
    progress("gradients", 0.7);
    const Reproducible reproducible;
    ASSIGN_OR_RETURN(const auto values, valuesOn(real->device(), request, wantedPlan));
    report.values = valuesOf(values, "the GPU");
    return {};
}

} // namespace

Status runVerifyOps(const StepRequest& given, const RecordOptions& options, bool onCpu, const ProgressReport& progress)
{
    ASSIGN_OR_RETURN(const auto wantedPlan, readWantedPlan(options));
    StepRequest request = given;
    Report report;
    report.model = request.info.model;
    report.simulated = request.recordingDevice != RecordingDevice::cuda;
    report.ops.emplace();
    report.ops->solver = options.solver;
    report.ops->runtime = options.runtime;
    RETURN_IF_ERROR(report.simulated ? verifySimulated(request, wantedPlan, onCpu, progress, report)
                                     : verifyReal(request, wantedPlan, progress, report));
    report.gpu = request.gpu.name;
    progress("done", 1);
    return print(report, options.json);
}

} // namespace headroom
