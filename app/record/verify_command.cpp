// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/record/verify_command.h"

#include "core/base/bytes.h"
#include "core/base/json_text.h"
#include "core/base/try.h"
#include "core/checkpoint/reproducible.h"
#include "core/checkpoint/verification.h"
#include "core/device/hosted_memory.h"
#include "core/device/simulated_device.h"
#include "core/policy/policy.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <iostream>
#include <utility>

namespace headroom {

VerificationReport::Values valuesOf(const GradientComparison& compared, const std::string& device)
{
    VerificationReport::Values values;
    values.compared = true;
    values.device = device;
    values.parameters = compared.parameters;
    values.largestDifference = compared.largestDifference;
    values.parameter = compared.parameter;
    values.unrepeatable = compared.unrepeatable;
    return values;
}

Status print(const VerificationReport& report, bool json)
{
    const Status status = verdict(report);
    std::cout << (json ? jsonText(toJson(report, status), 2) + '\n' : textOf(report));
    return status;
}

std::string withoutCpu(Bytes peak, double flops, bool wanted)
{
    // A CPU computes a step up to this size in some seconds.
    constexpr Bytes mostBytes = 4 * GiB;
    constexpr double mostFlops = 2e12;
    if (peak <= mostBytes && flops <= mostFlops)
        return {};
    const std::string much = "the step takes " + formatBytes(peak) + " and " + std::to_string(std::llround(flops / 1e9))
        + " GFLOP, much for the CPU";
    if (!wanted)
        return much + "; --device cpu compares gradients all the same";
    std::cerr << "note: " << much << ": several runs of the step take minutes\n";
    return {};
}

namespace {

/// Compares gradients on the CPU. `wanted`: however large the step is, and an error of the model is an error.
Status compareOnCpu(StepRequest request, const Policy& policy, double stepFlops, bool wanted,
                    VerificationReport& report)
{
    report.values.whyNot = withoutCpu(report.baselinePeak, stepFlops, wanted);
    if (!report.values.whyNot.empty())
        return {};
    request.model.device = at::kCPU;
    const auto source = openModel(request.model);
    if (!source && wanted)
        return source.error();
    if (!source) {
        report.values.whyNot = source.error().message; // for example a file without weights
        return {};
    }
    ASSIGN_OR_RETURN(const auto compared, compareGradients(**source, request.step, policy));
    report.values = valuesOf(compared, "the CPU");
    return {};
}

Result<Verification> executeOn(const StepRequest& request, const Policy& policy, const ProgressReport& progress)
{
    ASSIGN_OR_RETURN(const auto source, openModel(request.model));
    return verifyMemory(*source, request.step, policy, request.info, request.gpu, progress);
}

void take(const Verification& executed, const Policy& policy, const DeviceSpec& gpu, VerificationReport& report)
{
    report.gpu = gpu.name;
    report.device = gpu.title;
    report.memory = executed;
    report.baselinePeak = executed.baselinePeak;
    report.predictedPeak = executed.predictedPeak;
    report.modules = VerificationReport::Modules{executed.budget,
                                                 policy.worldSize,
                                                 policy.modules.size(),
                                                 executed.stepMs,
                                                 executed.predictedRecomputeMs,
                                                 executed.executedRecomputeMs};
}

/// Verifies memory on the simulated device, and gradients on the CPU.
Status verifySimulated(StepRequest& request, const Policy& policy, bool onCpu, const ProgressReport& progress,
                       VerificationReport& report)
{
    RETURN_IF_ERROR(openDevice(request, {}));
    ASSIGN_OR_RETURN(const auto executed, executeOn(request, policy, progress));
    take(executed, policy, request.gpu, report);
    progress("gradients", 0.9);
    return compareOnCpu(request, policy, executed.stepFlops, onCpu, report);
}

/// Verifies both on a GPU. Reproducible kernels, which may be others, run for the gradients only.
Status verifyReal(StepRequest& request, const Policy& policy, const ProgressReport& progress,
                  VerificationReport& report)
{
    RETURN_IF_ERROR(openDevice(request, {}));
    const std::shared_ptr<RealDevice> real = std::exchange(request.step.real, nullptr);
    const sim::HostedMemory hosted(real);
    ASSIGN_OR_RETURN(const auto executed, executeOn(request, policy, progress));
    take(executed, policy, request.gpu, report);
    progress("gradients", 0.9);
    ASSIGN_OR_RETURN(const auto source, openModel(request.model));
    const Reproducible reproducible;
    ASSIGN_OR_RETURN(const auto compared, compareGradients(*source, request.step, policy));
    report.values = valuesOf(compared, "the GPU");
    return {};
}

Result<VerificationReport> verify(StepRequest request, const std::string& policyFile, bool onCpu,
                                  const ProgressReport& progress)
{
    VerificationReport report;
    report.model = request.info.model;
    report.simulated = request.recordingDevice != RecordingDevice::cuda;
    ASSIGN_OR_RETURN(const auto policy, readPolicy(policyFile));
    RETURN_IF_ERROR(report.simulated ? verifySimulated(request, policy, onCpu, progress, report)
                                     : verifyReal(request, policy, progress, report));
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
        return badInput("--policy, --memory-budget and --ops-plan exclude each other: expected a single plan");
    if (!options.memoryBudget.empty() || !options.opsPlan.empty())
        return runVerifyOps(request, options, onCpu, progress);
    if (options.monotone || !options.opTimes.empty() || options.runtime != RecordOptions().runtime
        || options.solver != RecordOptions().solver)
        return badInput("--solver, --runtime, --op-times and --monotone say how ops are planned: expected "
                        "--memory-budget FRACTION as well");
    if (options.policy.empty())
        return badInput("--policy is missing: name the policy to verify, for example --policy policy.json");
    ASSIGN_OR_RETURN(const auto report, verify(request, options.policy, onCpu, progress));
    return print(report, options.json);
}

} // namespace headroom
