// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/record/verify_ops_report.h"

#include "app/record/verify_text.h"
#include "core/base/bytes.h"
#include "core/base/json_text.h"
#include "core/base/try.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <cmath>
#include <iostream>

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

} // namespace headroom
