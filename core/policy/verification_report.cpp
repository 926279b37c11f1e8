// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/policy/verification_report.h"

#include "core/base/bytes.h"
#include "core/base/try.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <iomanip>
#include <sstream>

namespace headroom {
namespace {

using Report = VerificationReport;
using ReportJson = nlohmann::ordered_json;

/// Relative difference of equal sums: the plan and the counter add the same flops in different orders.
constexpr double sumTolerance = 1e-9;

std::string plainNumber(double number)
{
    std::ostringstream text;
    text << number;
    return text.str();
}

Status memoryAgrees(const LevelComparison& memory, const std::string& where)
{
    if (memory.timelinesAgree())
        return {};
    return Error{ErrorKind::internal,
                 "executed memory differs from the predicted memory" + where + ": " + memory.firstDifference};
}

/// Returns where the executed step does not save and repeat what the plan says.
Status workAgrees(const Report::Work& planned, const Report::Work& executed, const std::string& where)
{
    if (executed.savedBytes != planned.savedBytes)
        return Error{ErrorKind::internal,
                     "the executed step" + where + " saves " + groupedDigits(executed.savedBytes)
                         + " bytes, planned were " + groupedDigits(planned.savedBytes)};
    if (executed.repeatedOps != planned.repeatedOps
        || std::abs(executed.recomputeFlops - planned.recomputeFlops) > sumTolerance * planned.recomputeFlops)
        return Error{ErrorKind::internal,
                     "the executed step" + where + " runs " + std::to_string(executed.repeatedOps) + " ops again, "
                         + plainNumber(executed.recomputeFlops) + " flops; planned were "
                         + std::to_string(planned.repeatedOps) + " ops, " + plainNumber(planned.recomputeFlops)
                         + " flops"};
    return {};
}

Status valuesAgree(const Report& report)
{
    const Report::Values& values = report.values;
    if (!values.compared || !values.unrepeatable.empty() || values.equal())
        return {};
    if (values.parameter.empty())
        return Error{ErrorKind::internal, "buffer " + *values.buffer + " is not as after the plain step"};
    return Error{ErrorKind::internal,
                 "gradients with the " + std::string(report.ops ? "plan" : "policy")
                     + " differ from gradients without: " + values.parameter + " differs by "
                     + plainNumber(values.largestDifference)};
}

/// A policy for several ranks has a budget that one rank alone does not show.
Status budgetIsKept(const Report& report)
{
    if (!report.modules || report.modules->worldSize != 1 || report.memory.executedPeak <= report.modules->budget)
        return {};
    return Error{ErrorKind::infeasible,
                 "this step takes " + exactBytes(report.memory.executedPeak)
                     + " with the policy, more than the policy's budget of " + formatBytes(report.modules->budget)
                     + "; plan this very step with torch-headroom plan"};
}

ReportJson toJson(const Report::Values& values)
{
    if (!values.compared)
        return {{"compared", false}, {"reason", values.whyNot}};
    ReportJson json{{"compared", true},
                    {"parameters", values.parameters},
                    {"largest_difference", values.largestDifference},
                    {"parameter", values.parameter},
                    {"unrepeatable", values.unrepeatable}};
    if (values.buffer)
        json["buffer"] = *values.buffer;
    return json;
}

ReportJson toJson(const Report::Peaks& peaks)
{
    return {{"requested_bytes", peaks.requested},
            {"allocated_bytes", peaks.allocated},
            {"active_bytes", peaks.active},
            {"reserved_bytes", peaks.reserved}};
}

void add(ReportJson& json, const Report::Modules& modules)
{
    json["budget_bytes"] = modules.budget;
    json["world_size"] = modules.worldSize;
    json["step_ms"] = modules.stepMs;
    json["predicted_recompute_ms"] = modules.predictedRecomputeMs;
    json["executed_recompute_ms"] = modules.executedRecomputeMs;
}

void add(ReportJson& json, const Report::Ops& ops)
{
    json["memory_budget"] = ops.fraction;
    json["solver"] = ops.solver;
    json["runtime"] = ops.runtime;
    json["planned_saved_bytes"] = ops.planned.savedBytes;
    json["executed_saved_bytes"] = ops.executed.savedBytes;
    json["repeated_ops"] = ops.executed.repeatedOps;
    json["predicted_recompute_flops"] = ops.planned.recomputeFlops;
    json["executed_recompute_flops"] = ops.executed.recomputeFlops;
    if (ops.plainPeaks && ops.plannedPeaks)
        json["allocator"] = {{"plain", toJson(*ops.plainPeaks)}, {"by_the_plan", toJson(*ops.plannedPeaks)}};
    if (ops.cpu)
        json["cpu"] = {{"planned_saved_bytes", ops.cpu->planned.savedBytes},
                       {"executed_saved_bytes", ops.cpu->executed.savedBytes},
                       {"predicted_peak_bytes", ops.cpu->predictedPeak},
                       {"executed_peak_bytes", ops.cpu->memory.executedPeak},
                       {"unequal_allocations", ops.cpu->memory.unequalAllocations}};
}

std::string differText(const LevelComparison& memory)
{
    return std::to_string(memory.unequalAllocations) + " of " + std::to_string(memory.allocations)
        + " allocations differ, by " + exactBytes(memory.largestDifference) + " at most\n";
}

std::string timelineText(const LevelComparison& memory)
{
    if (!memory.gatherDifference.empty())
        return "equal to the byte, peak included, but for what was gathered: " + differText(memory) + "              ("
            + memory.gatherDifference + ")\n";
    if (memory.timelinesAgree())
        return "equal to the byte after each of " + groupedDigits(static_cast<Bytes>(memory.allocations))
            + " allocations\n";
    return differText(memory);
}

std::string headline(const Report& report)
{
    std::string text = report.model + " on " + report.device + (report.simulated ? " (simulated)" : "");
    if (report.ops)
        return text + ", ops planned for a fraction of " + plainNumber(report.ops->fraction) + '\n';
    const std::size_t count = report.modules ? report.modules->checkpointed : 0;
    return text + ", " + std::to_string(count) + (count == 1 ? " module" : " modules") + " checkpointed\n";
}

std::string recomputeText(const Report::Modules& modules)
{
    std::ostringstream text;
    text << "Recompute     " << std::fixed << std::setprecision(2) << modules.executedRecomputeMs << " ms, predicted "
         << modules.predictedRecomputeMs << " ms, forward and backward " << modules.stepMs << " ms\n";
    return text.str();
}

std::string recomputeText(const Report::Ops& ops)
{
    std::string text;
    if (ops.plainPeaks && ops.plannedPeaks)
        text += "Allocator     " + exactBytes(ops.plannedPeaks->allocated) + " allocated at the peak, reserved "
            + exactBytes(ops.plannedPeaks->reserved) + "; without the plan " + exactBytes(ops.plainPeaks->allocated)
            + '\n';
    text += "Recompute     " + std::to_string(ops.executed.repeatedOps) + " ops, "
        + plainNumber(ops.executed.recomputeFlops / 1e9) + " GFLOP, predicted "
        + plainNumber(ops.planned.recomputeFlops / 1e9) + " GFLOP\n";
    if (ops.cpu)
        text += "On the CPU    saved " + exactBytes(ops.cpu->executed.savedBytes) + ", planned "
            + exactBytes(ops.cpu->planned.savedBytes) + "; memory " + timelineText(ops.cpu->memory);
    return text;
}

std::string gradientsText(const Report::Values& values)
{
    const std::string title = "Gradients     ";
    if (!values.compared)
        return title + "not compared: " + values.whyNot + '\n';
    if (values.equal())
        return title + "of " + std::to_string(values.parameters) + " parameters"
            + (values.buffer ? " and all buffers" : "") + " equal to the bit on " + values.device + '\n';
    if (!values.unrepeatable.empty())
        return title + "not compared: two runs of the plain step give different gradients on " + values.device + " ("
            + values.unrepeatable + ")\n";
    if (values.parameter.empty())
        return title + "equal on " + values.device + ", but buffer " + *values.buffer + " differs\n";
    return title + values.parameter + " differs by " + plainNumber(values.largestDifference) + " on " + values.device
        + '\n';
}

} // namespace

Status verdict(const Report& report)
{
    RETURN_IF_ERROR(memoryAgrees(report.memory, ""));
    if (report.ops) {
        RETURN_IF_ERROR(workAgrees(report.ops->planned, report.ops->executed, ""));
        if (report.ops->cpu) {
            RETURN_IF_ERROR(memoryAgrees(report.ops->cpu->memory, " on the CPU"));
            RETURN_IF_ERROR(workAgrees(report.ops->cpu->planned, report.ops->cpu->executed, " on the CPU"));
        }
    }
    RETURN_IF_ERROR(valuesAgree(report));
    return budgetIsKept(report);
}

ReportJson toJson(const Report& report, const Status& status)
{
    ReportJson json;
    json["model"] = report.model;
    json["gpu"] = report.gpu;
    json["simulated"] = report.simulated;
    json["agrees"] = status.ok();
    json["reason"] = status ? std::string() : status.error().message;
    json["baseline_peak_bytes"] = report.baselinePeak;
    json["predicted_peak_bytes"] = report.predictedPeak;
    json["executed_peak_bytes"] = report.memory.executedPeak;
    json["allocations"] = report.memory.allocations;
    json["unequal_allocations"] = report.memory.unequalAllocations;
    json["only_gathered_differs"] = !report.memory.gatherDifference.empty();
    json["largest_difference_bytes"] = report.memory.largestDifference;
    if (report.modules)
        add(json, *report.modules);
    if (report.ops)
        add(json, *report.ops);
    json["gradients"] = toJson(report.values);
    return json;
}

std::string textOf(const Report& report)
{
    const std::string plan = report.ops ? "plan" : "policy";
    std::string text = headline(report);
    if (report.modules)
        text += "Budget        " + exactBytes(report.modules->budget) + '\n';
    if (report.ops)
        text += "Saved         " + exactBytes(report.ops->executed.savedBytes) + ", planned "
            + exactBytes(report.ops->planned.savedBytes) + '\n';
    text += "Executed      " + exactBytes(report.memory.executedPeak) + "; without the " + plan + ' '
        + exactBytes(report.baselinePeak) + "\nPredicted     " + exactBytes(report.predictedPeak) + "\nTimeline      "
        + timelineText(report.memory);
    if (report.modules)
        text += recomputeText(*report.modules);
    if (report.ops)
        text += recomputeText(*report.ops);
    return text + gradientsText(report.values);
}

} // namespace headroom
