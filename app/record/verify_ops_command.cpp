// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/record/verify_ops_command.h"

#include "app/record/verify_command.h"
#include "core/base/bytes.h"
#include "core/checkpoint/ops_verification.h"
#include "core/device/hosted_memory.h"
#include "core/device/simulated_device.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <iostream>
#include <numeric>
#include <optional>

namespace headroom {
namespace {

struct Report
{
    OpsPlan plan;
    OpsVerification device;
    Bytes baselinePeak = 0;
    double stepFlops = 0;
    std::optional<OpsValues> values; ///< on the CPU
    std::string noValues; ///< why they were not compared
};

Result<OpsRequest> opsRequest(const RecordOptions& options)
{
    OpsRequest request;
    if (!CLI::detail::lexical_cast(options.memoryBudget, request.fraction)
        || !(request.fraction >= 0 && request.fraction <= 1))
        return badInput("--memory-budget `" + options.memoryBudget
                        + "`: expected a share from 0 (keep nothing) to 1 (keep what is kept by default), as 0.5");
    if (options.solver == "greedy")
        request.solver = OpsSolver::greedy;
    else if (options.solver == "ilp")
        request.solver = OpsSolver::ilp;
    else if (options.solver != "dp")
        return badInput("--solver is `" + options.solver + "`: expected dp, greedy or ilp");
    return request;
}

/// A model with the plan of its step.
struct Planned
{
    std::unique_ptr<ModelSource> model;
    OpsPlanner planner;
    OpsPlan plan;
};

Result<Planned> planOn(at::Device device, const StepRequest& request, const OpsRequest& ops)
{
    ModelRequest there = request.model;
    there.device = device;
    auto model = openModel(there);
    if (!model)
        return model.error();
    const auto trace = StepRunner(**model, request.step).record(request.info, request.gpu, {});
    if (!trace)
        return trace.error();
    auto planner = OpsPlanner::create(*trace);
    if (!planner)
        return planner.error();
    auto plan = planner->plan(ops);
    if (!plan)
        return plan.error();
    return Planned{std::move(*model), *std::move(planner), *std::move(plan)};
}

Status compareOnCpu(const StepRequest& request, const OpsRequest& ops, bool wanted, Report& report)
{
    if (!wanted && isMuchForCpu(report.baselinePeak, report.stepFlops)) {
        report.noValues = "the step takes " + formatBytes(report.baselinePeak)
            + ", which is much for the CPU; --device cpu compares them all the same";
        return {};
    }
    const sim::HostedMemory hosted;
    const auto planned = planOn(at::kCPU, request, ops);
    if (!planned && !wanted) {
        report.noValues = planned.error().message; // as for a file without weights
        return {};
    }
    if (!planned)
        return planned.error();
    const auto compared = compareValues(*planned->model, request.step, planned->planner, planned->plan);
    if (!compared)
        return compared.error();
    report.values = *compared;
    return {};
}

/// The first thing that is not as it should be; empty when all is.
Status verdict(const Report& report)
{
    const OpsVerification& device = report.device;
    if (!device.timelinesAgree())
        return Error{ErrorKind::internal, "executed and predicted memory part: " + device.firstDifference};
    if (device.executed.savedBytes != device.planned.savedBytes)
        return Error{ErrorKind::internal,
                     "the executed step saves " + groupedDigits(device.executed.savedBytes) + " bytes, planned were "
                         + groupedDigits(device.planned.savedBytes)};
    if (report.values && !report.values->equal())
        return Error{ErrorKind::internal,
                     report.values->GradientComparison::equal()
                         ? "buffer " + report.values->buffer + " is not as after the plain step"
                         : "gradients by the plan are not those without it: " + report.values->parameter
                             + " differs by " + CLI::detail::to_string(report.values->largestDifference)};
    return {};
}

nlohmann::json toJson(const StepRequest& request, const Report& report, const Status& status)
{
    const OpsVerification& device = report.device;
    nlohmann::json gradients{{"compared", report.values.has_value()}};
    if (report.values) {
        gradients["parameters"] = report.values->parameters;
        gradients["largest_difference"] = report.values->largestDifference;
        gradients["parameter"] = report.values->parameter;
        gradients["buffer"] = report.values->buffer;
    } else {
        gradients["reason"] = report.noValues;
    }
    return {{"model", request.info.model},
            {"gpu", request.gpu.name},
            {"agrees", status.ok()},
            {"reason", status ? std::string() : status.error().message},
            {"memory_budget", report.plan.fraction},
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
            {"gradients", gradients}};
}

void print(const StepRequest& request, const Report& report)
{
    const OpsVerification& device = report.device;
    const auto bytes = [](Bytes value) { return formatBytes(value) + " (" + groupedDigits(value) + " bytes)"; };
    std::cout << request.info.model << " on " << request.gpu.title << " (simulated), ops planned for a fraction of "
              << report.plan.fraction << "\nSaved         " << bytes(device.executed.savedBytes) << ", planned "
              << bytes(device.planned.savedBytes) << "\nExecuted      " << bytes(device.executedPeak)
              << "; without the plan " << bytes(report.baselinePeak) << "\nPredicted     "
              << bytes(device.predictedPeak) << "\nTimeline      ";
    if (device.timelinesAgree())
        std::cout << "equal to the byte after each of " << groupedDigits(static_cast<Bytes>(device.allocations))
                  << " allocations\n";
    else
        std::cout << device.unequalAllocations << " of " << device.allocations << " allocations differ, by "
                  << bytes(device.largestDifference) << " at most\n";
    std::cout << "Recompute     " << device.executed.repeatedOps << " ops, " << device.executed.recomputeFlops / 1e9
              << " GFLOP, predicted " << device.planned.recomputeFlops / 1e9 << " GFLOP\nGradients     ";
    if (!report.values)
        std::cout << "not compared: " << report.noValues << '\n';
    else if (report.values->equal())
        std::cout << "of " << report.values->parameters << " parameters and all buffers equal to the bit on the CPU\n";
    else
        std::cout << "differ on the CPU\n";
}

} // namespace

Status runVerifyOps(const StepRequest& request, const RecordOptions& options, bool onCpu,
                    const ProgressReport& progress)
{
    const auto ops = opsRequest(options);
    if (!ops)
        return ops.error();
    const auto report = [&](std::string_view stage, double done) {
        if (progress)
            progress(stage, done);
    };
    Report found;
    sim::initialize(request.gpu);
    report("without the plan", 0);
    {
        const auto planned = planOn(sim::device(), request, *ops);
        if (!planned)
            return planned.error();
        const StepTrace& trace = *planned->planner.graph().trace;
        found.plan = planned->plan;
        found.baselinePeak = planned->planner.recordedPeak();
        found.stepFlops = std::accumulate(trace.ops.flops.begin(), trace.ops.flops.end(), 0.0);
        report("by the plan", 0.5);
        const auto verified = verifyOps(*planned->model, request.step, planned->planner, planned->plan);
        if (!verified)
            return verified.error();
        found.device = *verified;
    }
    report("gradients", 0.7);
    if (const Status compared = compareOnCpu(request, *ops, onCpu, found); !compared)
        return compared.error();
    report("done", 1);
    const Status status = verdict(found);
    if (options.json)
        std::cout << toJson(request, found, status).dump(2) << '\n';
    else
        print(request, found);
    return status;
}

} // namespace headroom
