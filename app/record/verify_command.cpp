// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/record/verify_command.h"

#include "app/record/verify_ops_command.h"
#include "core/base/bytes.h"
#include "core/base/json_text.h"
#include "core/base/try.h"
#include "core/checkpoint/reproducible.h"
#include "core/checkpoint/verification.h"
#include "core/device/hosted_memory.h"
#include "core/device/simulated_device.h"
#include "core/policy/policy.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <cmath>
#include <iomanip>
#include <iostream>
#include <optional>
#include <utility>

namespace headroom {

nlohmann::json gradientsJson(const GradientComparison* compared, const std::string& whyNot)
{
    if (!compared)
        return {{"compared", false}, {"reason", whyNot}};
    return {{"compared", true},
            {"parameters", compared->parameters},
            {"largest_difference", compared->largestDifference},
            {"parameter", compared->parameter},
            {"unrepeatable", compared->unrepeatable}};
}

std::string timelineText(const LevelComparison& memory)
{
    if (memory.timelinesAgree())
        return "equal to the byte after each of " + groupedDigits(static_cast<Bytes>(memory.allocations))
            + " allocations\n";
    return std::to_string(memory.unequalAllocations) + " of " + std::to_string(memory.allocations)
        + " allocations differ, by " + exactBytes(memory.largestDifference) + " at most\n";
}

std::string withoutCpu(Bytes peak, double flops, bool wanted)
{
    // A CPU computes a step up to this size in some seconds.
    constexpr Bytes mostBytes = 4 * GiB;
    constexpr double mostFlops = 2e12;
    if (peak <= mostBytes && flops <= mostFlops)
        return {};
    const std::string much = "the step takes " + formatBytes(peak) + " and " + std::to_string(std::llround(flops / 1e9))
        + " GFLOP, which is much for the CPU";
    if (!wanted)
        return much + "; --device cpu compares them all the same";
    std::cerr << "note: " << much << ": it runs several times, which takes minutes\n";
    return {};
}

namespace {

struct Report
{
    std::string model;
    DeviceSpec gpu;
    bool real = false; ///< a real GPU, not a simulated GPU
    Policy policy;
    Verification memory;
    std::optional<GradientComparison> gradients;
    std::string noGradients; ///< why gradients were not compared
};

/// Returns the first disagreement with the prediction or the budget as an error; success if there is none.
Status verdict(const Report& report)
{
    const Verification& memory = report.memory;
    if (!memory.timelinesAgree())
        return Error{ErrorKind::internal, "executed and predicted memory part: " + memory.firstDifference};
    if (report.gradients && !report.gradients->equal() && report.gradients->unrepeatable.empty())
        return Error{ErrorKind::internal,
                     "gradients with the policy are not those without it: " + report.gradients->parameter
                         + " differs by " + CLI::detail::to_string(report.gradients->largestDifference)};
    if (report.policy.worldSize == 1 && memory.executedPeak > memory.budget)
        return Error{ErrorKind::infeasible,
                     "this step takes " + exactBytes(memory.executedPeak) + " with the policy, more than its budget of "
                         + formatBytes(memory.budget) + "; make the policy of this very step with torch-headroom plan"};
    return {};
}

void printJson(const Report& report, const Status& status)
{
    const Verification& memory = report.memory;
    const nlohmann::json document{
        {"model", report.model},
        {"gpu", report.gpu.name},
        {"simulated", !report.real},
        {"agrees", status.ok()},
        {"reason", status ? std::string() : status.error().message},
        {"budget_bytes", memory.budget},
        {"world_size", report.policy.worldSize},
        {"baseline_peak_bytes", memory.baselinePeak},
        {"predicted_peak_bytes", memory.predictedPeak},
        {"executed_peak_bytes", memory.executedPeak},
        {"allocations", memory.allocations},
        {"unequal_allocations", memory.unequalAllocations},
        {"largest_difference_bytes", memory.largestDifference},
        {"step_ms", memory.stepMs},
        {"predicted_recompute_ms", memory.predictedRecomputeMs},
        {"executed_recompute_ms", memory.executedRecomputeMs},
        {"gradients", gradientsJson(report.gradients ? &*report.gradients : nullptr, report.noGradients)}};
    std::cout << jsonText(document, 2) << '\n';
}

void printText(const Report& report)
{
    const Verification& memory = report.memory;
    std::cout << report.model << " on " << report.gpu.title << (report.real ? ", " : " (simulated), ")
              << report.policy.modules.size() << (report.policy.modules.size() == 1 ? " module" : " modules")
              << " checkpointed\n"
              << "Budget        " << exactBytes(memory.budget) << "\nExecuted      " << exactBytes(memory.executedPeak)
              << "; without the policy " << exactBytes(memory.baselinePeak) << "\nPredicted     "
              << exactBytes(memory.predictedPeak) << "\nTimeline      " << timelineText(memory) << "Recompute     "
              << std::fixed << std::setprecision(2) << memory.executedRecomputeMs << " ms, predicted "
              << memory.predictedRecomputeMs << " ms, forward and backward " << memory.stepMs << " ms\n"
              << std::defaultfloat << "Gradients     ";
    if (!report.gradients)
        std::cout << "not compared: " << report.noGradients << '\n';
    else if (report.gradients->equal())
        std::cout << "of " << report.gradients->parameters << " parameters equal to the bit on the "
                  << (report.real ? "GPU\n" : "CPU\n");
    else if (!report.gradients->unrepeatable.empty())
        std::cout << "say nothing: the plain step run twice does not give the same ones ("
                  << report.gradients->unrepeatable << ")\n";
    else
        std::cout << report.gradients->parameter << " differs by " << report.gradients->largestDifference << '\n';
}

/// Compares gradients on the CPU. `wanted`: however large the step is, and an error of the model is an error.
Status compareOnCpu(StepRequest request, bool wanted, Report& report)
{
    report.noGradients = withoutCpu(report.memory.baselinePeak, report.memory.stepFlops, wanted);
    if (!report.noGradients.empty())
        return {};
    request.model.device = at::kCPU;
    const auto source = openModel(request.model);
    if (!source && wanted)
        return source.error();
    if (!source) {
        report.noGradients = source.error().message; // for example a file without weights
        return {};
    }
    ASSIGN_OR_RETURN(report.gradients, compareGradients(**source, request.step, report.policy));
    return {};
}

Status executeOn(const StepRequest& request, const ProgressReport& progress, Report& report)
{
    ASSIGN_OR_RETURN(const auto source, openModel(request.model));
    ASSIGN_OR_RETURN(report.memory,
                     verifyMemory(*source, request.step, report.policy, request.info, request.gpu, progress));
    return {};
}

/// Verifies memory on the simulated device, and gradients on the CPU.
Status verifySimulated(StepRequest& request, bool onCpu, const ProgressReport& progress, Report& report)
{
    RETURN_IF_ERROR(openDevice(request, {}));
    RETURN_IF_ERROR(executeOn(request, progress, report));
    progress("gradients", 0.9);
    return compareOnCpu(request, onCpu, report);
}

/// Verifies both on a GPU. Reproducible kernels, which may be others, run for the gradients only.
Status verifyReal(StepRequest& request, const ProgressReport& progress, Report& report)
{
    RETURN_IF_ERROR(openDevice(request, {}));
    const std::shared_ptr<RealDevice> real = std::exchange(request.step.real, nullptr);
    const sim::HostedMemory hosted(real);
    RETURN_IF_ERROR(executeOn(request, progress, report));
    progress("gradients", 0.9);
    ASSIGN_OR_RETURN(const auto source, openModel(request.model));
    const Reproducible reproducible;
    ASSIGN_OR_RETURN(report.gradients, compareGradients(*source, request.step, report.policy));
    return {};
}

Result<Report> verify(StepRequest request, const std::string& policyFile, bool onCpu, const ProgressReport& progress)
{
    Report report;
    report.model = request.info.model;
    report.real = request.place == Place::cuda;
    ASSIGN_OR_RETURN(report.policy, readPolicy(policyFile));
    RETURN_IF_ERROR(report.real ? verifyReal(request, progress, report)
                                : verifySimulated(request, onCpu, progress, report));
    report.gpu = request.gpu;
    progress("done", 1);
    return report;
}

} // namespace

Status runVerify(const RecordOptions& given, const ProgressReport& watch)
{
    RecordOptions options = given;
    const bool onCpu = options.device == "cpu";
    if (onCpu)
        options.device = "sim";
    ASSIGN_OR_RETURN(const auto request, readStepRequest(options));
    const ProgressReport progress = progressTo(std::cerr, options.progress, watch);
    if (!options.policy.empty() + !options.memoryBudget.empty() + !options.opsPlan.empty() > 1)
        return badInput("--policy, --memory-budget and --ops-plan are plans: expected one of them");
    if (!options.memoryBudget.empty() || !options.opsPlan.empty())
        return runVerifyOps(request, options, onCpu, progress);
    if (options.monotone || !options.opTimes.empty() || options.runtime != RecordOptions().runtime
        || options.solver != RecordOptions().solver)
        return badInput("--solver, --runtime, --op-times and --monotone say how ops are planned: expected "
                        "--memory-budget FRACTION with them");
    if (options.policy.empty())
        return badInput("--policy is missing: name the policy to verify, for example --policy policy.json");
    ASSIGN_OR_RETURN(const auto report, verify(request, options.policy, onCpu, progress));
    const Status status = verdict(report);
    if (options.json)
        printJson(report, status);
    else
        printText(report);
    return status;
}

} // namespace headroom
