// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/record/verify_ops_command.h"

#include "app/record/verify_ops_report.h"
#include "app/record/verify_text.h"
#include "core/base/try.h"
#include "core/checkpoint/reproducible.h"
#include "core/device/hosted_memory.h"
#include "core/device/real_device.h"
#include "core/device/simulated_device.h"
#include "core/joint/ops_plan_file.h"
#include "core/joint/ops_request.h"

#include <CLI/CLI.hpp>

#include <numeric>
#include <utility>

namespace headroom {
namespace {

/// The plan to verify, which is made for the step on each device.
struct Question
{
    OpsRequest request;
    std::string opTimes; ///< file
    std::string plan; ///< file; empty: `request` is planned
    bool monotone = false;
};

Result<Question> readQuestion(const RecordOptions& options)
{
    Question question;
    question.plan = options.opsPlan;
    if (!question.plan.empty())
        return question;
    if (!CLI::detail::lexical_cast(options.memoryBudget, question.request.fraction)
        || !(question.request.fraction >= 0 && question.request.fraction <= 1))
        return badInput("--memory-budget `" + options.memoryBudget
                        + "`: expected a share from 0 (keep nothing) to 1 (keep what is kept by default), as 0.5");
    ASSIGN_OR_RETURN(question.request.solver, parseOpsSolver(options.solver));
    ASSIGN_OR_RETURN(question.request.runtime, parseOpsRuntime(options.runtime));
    if (!options.opTimes.empty() && question.request.runtime != OpsRuntime::measured)
        return badInput("--op-times has measured times: expected --runtime measured with it");
    question.opTimes = options.opTimes;
    question.monotone = options.monotone;
    return question;
}

/// A model with the plan of its step.
struct Planned
{
    std::unique_ptr<ModelSource> model;
    OpsPlanner planner;
    OpsPlan plan;
};

Result<OpsPlan> planOf(const OpsPlanner& planner, const Question& question)
{
    const StepTrace& trace = *planner.graph().trace;
    if (!question.plan.empty()) {
        ASSIGN_OR_RETURN(const auto given, readOpsPlan(question.plan, trace));
        return planner.planSaving(given.saved, given.fraction);
    }
    OpsRequest ops = question.request;
    if (!question.opTimes.empty()) {
        ASSIGN_OR_RETURN(ops.measuredMs, readOpTimes(question.opTimes, trace));
    }
    return question.monotone ? planner.planMonotone(ops) : planner.plan(ops);
}

Result<Planned> planOn(at::Device device, const StepRequest& request, const Question& question)
{
    ModelRequest there = request.model;
    there.device = device;
    ASSIGN_OR_RETURN(auto model, openModel(there));
    ASSIGN_OR_RETURN(const auto trace, StepRunner(*model, request.step).record(request.info, request.gpu, {}));
    ASSIGN_OR_RETURN(auto planner, OpsPlanner::create(trace));
    ASSIGN_OR_RETURN(auto plan, planOf(planner, question));
    return Planned{std::move(model), std::move(planner), std::move(plan)};
}

Result<OpsValues> valuesOn(at::Device device, const StepRequest& request, const Question& question)
{
    ASSIGN_OR_RETURN(const auto planned, planOn(device, request, question));
    return compareValues(*planned.model, request.step, planned.planner, planned.plan);
}

/// Records the step on `device`, and runs it by the plan of its ops.
Status executeOn(at::Device device, const StepRequest& request, const Question& question, RealDevice* real,
                 const ProgressReport& progress, OpsReport& report)
{
    progress("without the plan", 0);
    ASSIGN_OR_RETURN(const auto planned, planOn(device, request, question));
    const StepTrace& trace = *planned.planner.graph().trace;
    report.plan = planned.plan;
    report.baselinePeak = planned.planner.recordedPeak();
    report.stepFlops = std::accumulate(trace.ops.flops.begin(), trace.ops.flops.end(), 0.0);
    progress("by the plan", 0.4);
    ASSIGN_OR_RETURN(report.device, verifyOps(*planned.model, request.step, planned.planner, planned.plan, real));
    return {};
}

/// Compares values on the CPU, where the step has other ops and therefore another plan for the same fraction. `wanted`:
/// however large the step is, and memory, too; an error of the model is an error.
Status compareOnCpu(const StepRequest& request, Question question, bool wanted, OpsReport& report)
{
    report.noValues = withoutCpu(report.baselinePeak, report.stepFlops, wanted);
    if (!report.noValues.empty())
        return {};
    question.request.fraction = report.plan.fraction;
    question.opTimes.clear();
    question.plan.clear();
    const sim::HostedMemory hosted;
    if (wanted) {
        OpsReport onCpu;
        RETURN_IF_ERROR(executeOn(
            at::kCPU, request, question, nullptr, [](auto...) {}, onCpu));
        report.cpu = onCpu.device;
    }
    const auto values = valuesOn(at::kCPU, request, question);
    if (values)
        report.values = *values;
    else if (wanted)
        return values.error();
    else
        report.noValues = values.error().message; // for example a file without weights
    return {};
}

/// Verifies memory on the simulated device, and values on the CPU.
Status verifySimulated(StepRequest& request, const Question& question, bool onCpu, const ProgressReport& progress,
                       OpsReport& report)
{
    RETURN_IF_ERROR(openDevice(request, {question.plan, question.opTimes}));
    report.deviceName = request.gpu.title + " (simulated)";
    RETURN_IF_ERROR(executeOn(sim::device(), request, question, nullptr, progress, report));
    progress("gradients", 0.7);
    return compareOnCpu(request, question, onCpu, report);
}

/// Verifies both on a GPU. Reproducible kernels, which may take other memory, run for the values only.
Status verifyReal(StepRequest& request, const Question& question, const ProgressReport& progress, OpsReport& report)
{
    RETURN_IF_ERROR(openDevice(request, {question.plan, question.opTimes}));
    const std::shared_ptr<RealDevice> real = std::exchange(request.step.real, nullptr);
    report.deviceName = real->spec().title;
    const sim::HostedMemory hosted(real);
    RETURN_IF_ERROR(executeOn(real->device(), request, question, real.get(), progress, report));
    progress("gradients", 0.7);
    const Reproducible reproducible;
    ASSIGN_OR_RETURN(report.values, valuesOn(real->device(), request, question));
    return {};
}

} // namespace

Status runVerifyOps(const StepRequest& given, const RecordOptions& options, bool onCpu, const ProgressReport& progress)
{
    ASSIGN_OR_RETURN(const auto question, readQuestion(options));
    StepRequest request = given;
    OpsReport report;
    report.model = request.info.model;
    report.solver = options.solver;
    report.runtime = options.runtime;
    RETURN_IF_ERROR(request.place == Place::cuda ? verifyReal(request, question, progress, report)
                                                 : verifySimulated(request, question, onCpu, progress, report));
    report.gpu = request.gpu.name;
    progress("done", 1);
    const Status status = verdict(report);
    if (options.json)
        printJson(report, status);
    else
        printText(report);
    return status;
}

} // namespace headroom
