// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/record/verify_ops_command.h"

#include "app/record/verify_command.h"
#include "core/base/bytes.h"
#include "core/base/json_text.h"
#include "core/base/try.h"
#include "core/checkpoint/reproducible.h"
#include "core/device/hosted_memory.h"
#include "core/device/real_device.h"
#include "core/device/simulated_device.h"
#include "core/joint/ops_request.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <cmath>
#include <iostream>
#include <numeric>
#include <utility>

namespace headroom {
namespace {

/// Relative difference of equal sums: the plan and the counter add the same flops in different orders.
constexpr double sumTolerance = 1e-9;

bool isReal(const OpsReport& report)
{
    return report.device.plannedPeaks.allocated > 0;
}

const char* valuesDevice(const OpsReport& report)
{
    return isReal(report) ? "the GPU" : "the CPU";
}

/// Returns where the executed step does not follow the plan.
Status followed(const OpsVerification& step, const std::string& where)
{
    if (!step.timelinesAgree())
        return Error{ErrorKind::internal, "executed and predicted memory part" + where + ": " + step.firstDifference};
    if (step.executed.savedBytes != step.planned.savedBytes)
        return Error{ErrorKind::internal,
                     "the executed step" + where + " saves " + groupedDigits(step.executed.savedBytes)
                         + " bytes, planned were " + groupedDigits(step.planned.savedBytes)};
    if (step.executed.repeatedOps != step.planned.repeatedOps
        || std::abs(step.executed.recomputeFlops - step.planned.recomputeFlops)
            > sumTolerance * step.planned.recomputeFlops)
        return Error{ErrorKind::internal,
                     "the executed step" + where + " runs " + std::to_string(step.executed.repeatedOps) + " ops again, "
                         + CLI::detail::to_string(step.executed.recomputeFlops) + " flops; planned were "
                         + std::to_string(step.planned.repeatedOps) + " ops, "
                         + CLI::detail::to_string(step.planned.recomputeFlops) + " flops"};
    return {};
}

nlohmann::json peaksJson(const AllocatorPeaks& peaks)
{
    return {{"requested_bytes", peaks.requested},
            {"allocated_bytes", peaks.allocated},
            {"active_bytes", peaks.active},
            {"reserved_bytes", peaks.reserved}};
}

nlohmann::json valuesJson(const OpsReport& report)
{
    nlohmann::json values = gradientsJson(report.values ? &*report.values : nullptr, report.noValues);
    if (report.values)
        values["buffer"] = report.values->buffer;
    return values;
}

void printGradients(const OpsReport& report)
{
    std::cout << "Gradients     ";
    if (!report.values)
        std::cout << "not compared: " << report.noValues << '\n';
    else if (report.values->equal())
        std::cout << "of " << report.values->parameters << " parameters and all buffers equal to the bit on "
                  << valuesDevice(report) << '\n';
    else if (!report.values->unrepeatable.empty())
        std::cout << "say nothing: the plain step run twice does not give the same ones on " << valuesDevice(report)
                  << " (" << report.values->unrepeatable << ")\n";
    else
        std::cout << "differ on " << valuesDevice(report) << '\n';
}

} // namespace

Status verdict(const OpsReport& report)
{
    RETURN_IF_ERROR(followed(report.device, ""));
    if (report.cpu)
        RETURN_IF_ERROR(followed(*report.cpu, " on the CPU"));
    if (!report.values || !report.values->unrepeatable.empty() || report.values->equal())
        return {};
    return Error{ErrorKind::internal,
                 report.values->GradientComparison::equal()
                     ? "buffer " + report.values->buffer + " is not as after the plain step"
                     : "gradients by the plan are not those without it: " + report.values->parameter + " differs by "
                         + CLI::detail::to_string(report.values->largestDifference)};
}

void printJson(const OpsReport& report, const Status& status)
{
    const OpsVerification& device = report.device;
    nlohmann::json json{{"model", report.model},
                        {"gpu", report.gpu},
                        {"simulated", !isReal(report)},
                        {"agrees", status.ok()},
                        {"reason", status ? std::string() : status.error().message},
                        {"memory_budget", report.plan.fraction},
                        {"solver", report.solver},
                        {"runtime", report.runtime},
                        {"baseline_peak_bytes", report.baselinePeak},
                        {"predicted_peak_bytes", device.predictedPeak},
                        {"executed_peak_bytes", device.executedPeak},
                        {"planned_saved_bytes", device.planned.savedBytes},
                        {"executed_saved_bytes", device.executed.savedBytes},
                        {"allocations", device.allocations},
                        {"unequal_allocations", device.unequalAllocations},
                        {"largest_difference_bytes", device.largestDifference},
                        {"repeated_ops", device.executed.repeatedOps},
                        {"predicted_recompute_flops", device.planned.recomputeFlops},
                        {"executed_recompute_flops", device.executed.recomputeFlops},
                        {"gradients", valuesJson(report)}};
    if (isReal(report))
        json["allocator"] = {{"plain", peaksJson(device.plainPeaks)}, {"by_the_plan", peaksJson(device.plannedPeaks)}};
    if (report.cpu)
        json["cpu"] = {{"planned_saved_bytes", report.cpu->planned.savedBytes},
                       {"executed_saved_bytes", report.cpu->executed.savedBytes},
                       {"predicted_peak_bytes", report.cpu->predictedPeak},
                       {"executed_peak_bytes", report.cpu->executedPeak},
                       {"unequal_allocations", report.cpu->unequalAllocations}};
    std::cout << jsonText(json, 2) << '\n';
}

void printText(const OpsReport& report)
{
    const OpsVerification& device = report.device;
    std::cout << report.model << " on " << report.deviceName << ", ops planned for a fraction of "
              << report.plan.fraction << "\nSaved         " << exactBytes(device.executed.savedBytes) << ", planned "
              << exactBytes(device.planned.savedBytes) << "\nExecuted      " << exactBytes(device.executedPeak)
              << "; without the plan " << exactBytes(report.baselinePeak) << "\nPredicted     "
              << exactBytes(device.predictedPeak) << "\nTimeline      " << timelineText(device);
    if (isReal(report))
        std::cout << "Allocator     " << exactBytes(device.plannedPeaks.allocated)
                  << " allocated at its peak, reserved " << exactBytes(device.plannedPeaks.reserved)
                  << "; without the plan " << exactBytes(device.plainPeaks.allocated) << '\n';
    std::cout << "Recompute     " << device.executed.repeatedOps << " ops, " << device.executed.recomputeFlops / 1e9
              << " GFLOP, predicted " << device.planned.recomputeFlops / 1e9 << " GFLOP\n";
    if (report.cpu)
        std::cout << "On the CPU    saved " << exactBytes(report.cpu->executed.savedBytes) << ", planned "
                  << exactBytes(report.cpu->planned.savedBytes) << "; memory " << timelineText(*report.cpu);
    printGradients(report);
}

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

/// A model with the plan of the step.
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

/// Records the step on `device`, and runs it by the plan of the ops.
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
