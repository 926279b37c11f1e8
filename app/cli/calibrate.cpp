// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/arguments.h"
#include "app/cli/command.h"
#include "app/cli/table.h"
#include "core/base/atomic_write.h"
#include "core/base/json_reader.h"
#include "core/base/try.h"
#include "core/compare/step_comparison.h"
#include "core/cost/calibration.h"
#include "core/cost/collective_model.h"
#include "core/cost/roofline.h"
#include "core/profile/import.h"
#include "core/profile/profile.h"
#include "core/profile/profile_reader.h"
#include "core/trace/step_file.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <filesystem>
#include <iostream>

namespace headroom::cli {

namespace {

struct CalibrateArguments
{
    std::vector<std::string> steps;
    std::string output;
    std::string gpu;
    std::string predicted;
    std::string profileStep;
    std::string topology; ///< the topology that the collectives ran on
    bool json = false;
};

/// Numbers of ops that ran on a GPU.
struct Coverage
{
    std::int64_t measured = 0; ///< all collectives
    std::int64_t learned = 0; ///< collectives with a known cost
};

Coverage coverageOf(const StepTrace& step)
{
    Coverage coverage;
    for (std::uint32_t row = 0; row < step.ops.size(); ++row) {
        const bool measured = (step.ops.flags[OpId(row)] & opMeasured) != 0;
        coverage.measured += measured ? 1 : 0;
        coverage.learned += measured && step.ops.bytes[OpId(row)] > 0 ? 1 : 0;
    }
    return coverage;
}

constexpr auto withoutShapes = "has no shapes: profile with record_shapes=True, or name the simulated step of the same "
                               "training with --step step.hrs";

/// Reads a trace of torch.profiler as a step with costs of ops: by the trace's own shapes, or from the step of --step.
Result<StepTracePtr> readProfiledStep(const std::string& file, const CalibrateArguments& arguments)
{
    ASSIGN_OR_RETURN(ProfileRequest request, profileRequest(arguments.profileStep, {file}));
    request.gpu = arguments.gpu;
    request.everyStep = arguments.predicted.empty() && !request.step;
    if (!arguments.gpu.empty())
        if (const auto spec = findDeviceSpec(arguments.gpu); !spec)
            return badInput("--gpu: " + spec.error().message);
    const Result<StepTracePtr> trace = importProfile(std::filesystem::path(file), request);
    if (!trace)
        return trace.error();
    if ((*trace)->info.gpu.empty() && (*trace)->info.measured->kernels > 0)
        return badInput(file + " names no GPU that Headroom knows: name the GPU with --gpu");
    if (arguments.predicted.empty()) {
        const MeasuredStep& measured = *(*trace)->info.measured;
        if (measured.kernels > 0 && measured.cpuFactor <= 0 && coverageOf(**trace).learned == 0)
            return badInput(file + " " + withoutShapes + ", and has too few ops to know the CPU by");
        return trace;
    }
    ASSIGN_OR_RETURN(const StepTracePtr predicted, readStepTrace(arguments.predicted));
    if (!predicted->info.simulated)
        return badInput("--step " + arguments.predicted + " was measured itself: expected a simulated step");
    return withMeasuredTimes(predicted, **trace, file);
}

bool isNcclTestsFile(const std::string& file)
{
    if (file.ends_with(".hrs") || isProfileFile(file))
        return false;
    const Result<std::string> text = json::textOf(file);
    return text && isNcclTests(*text);
}

Result<std::vector<CollectiveSample>> samplesIn(const std::string& file, const Topology& topology)
{
    if (!isProfileFile(file)) {
        ASSIGN_OR_RETURN(const std::string text, json::textOf(file));
        return readNcclTests(text, file);
    }
    ASSIGN_OR_RETURN(const Profile profile, readProfile(std::filesystem::path(file)));
    return collectivesOf(profile, topology.ranksPerNode);
}

/// Learns a topology (for --topology) from the output of nccl-tests or from NCCL's kernels in a trace.
Result<int> runTopology(const CalibrateArguments& arguments)
{
    if (arguments.topology.empty())
        return badInput("--topology is missing: name the topology on which the collectives ran");
    if (arguments.output.empty())
        return badInput("-o is missing: name the file for the topology");
    ASSIGN_OR_RETURN(const Topology known, findTopology(arguments.topology));
    std::vector<CollectiveSample> samples;
    for (const std::string& file : arguments.steps) {
        ASSIGN_OR_RETURN(const auto read, samplesIn(file, known));
        samples.insert(samples.end(), read.begin(), read.end());
    }
    ASSIGN_OR_RETURN(const Topology learned, calibrated(known, samples));
    RETURN_IF_ERROR(writeAtomically(arguments.output, topologyToJson(learned)));
    if (arguments.json)
        printJson({{"topology", learned.name}, {"file", arguments.output}, {"collectives_measured", samples.size()}});
    else
        std::cout << "Topology      " << learned.name << "\nLearned from  " << groupedDigits(std::ssize(samples))
                  << " collectives\nWritten to    " << arguments.output << "; use the topology with --topology "
                  << arguments.output << '\n';
    return 0;
}

Result<int> run(const CLI::App& command, const CalibrateArguments& arguments)
{
    if (!isAny(arguments.steps, isProfileFile))
        RETURN_IF_ERROR(refuse(command, {"--gpu", "--step", "--profile-step"},
                               "is for a trace of torch.profiler: expected such a trace"));
    if (!arguments.topology.empty() || std::ranges::all_of(arguments.steps, isNcclTestsFile))
        return runTopology(arguments);
    Calibration learned;
    Coverage coverage;
    for (const std::string& file : arguments.steps) {
        ASSIGN_OR_RETURN(const StepTracePtr step,
                         isProfileFile(file) ? readProfiledStep(file, arguments) : readStepTrace(file));
        ASSIGN_OR_RETURN(const Calibration one, calibrate(*step, file));
        if (!learned.gpu.empty() && learned.gpu != one.gpu)
            return badInput(file + " was measured on " + one.gpu + ", earlier steps on " + learned.gpu
                            + ": calibrate each GPU on its own");
        learned = learned.gpu.empty() ? one : merged(learned, one);
        const Coverage of = coverageOf(*step);
        coverage.measured += of.measured;
        coverage.learned += of.learned;
    }
    const std::filesystem::path target
        = arguments.output.empty() ? calibrationFile(learned.gpu) : std::filesystem::path(arguments.output);
    if (target.empty())
        return badInput("neither HOME nor HEADROOM_CALIBRATION_DIR is set: name the file to write with -o");
    RETURN_IF_ERROR(addToCalibration(learned, target));
    if (coverage.learned == 0)
        std::cerr << "torch-headroom: note: " << arguments.steps.back() << ' ' << withoutShapes
                  << "; from this trace only the CPU's time was learned\n";
    if (arguments.json) {
        Json document{{"gpu", learned.gpu},
                      {"file", target.string()},
                      {"ops", learned.curves.size()},
                      {"ratio", learned.ratio},
                      {"cpu_factor", learned.cpuFactor},
                      {"shortest_ms", learned.shortestMs},
                      {"time_model", timeModelName(learned.base)},
                      {"ops_measured", coverage.measured},
                      {"ops_learned_from", coverage.learned}};
        printJson(document);
        return 0;
    }
    const std::string model = std::string("the time model `") + std::string(timeModelName(learned.base)) + "` says";
    std::cout << "GPU           " << learned.gpu << "\nKinds of ops  " << learned.curves.size() << "\nLearned from  "
              << groupedDigits(coverage.learned) << " of " << groupedDigits(coverage.measured) << " ops with kernels\n";
    if (coverage.learned > 0)
        std::cout << "Measured      " << formatNumber(learned.ratio, 2) << " times what " << model << '\n';
    if (learned.cpuFactor > 0)
        std::cout << "CPU           issues an op in " << formatNumber(learned.cpuFactor, 2) << " times what " << model
                  << ", the profiler's own time included\n";
    std::cout << "Written to    " << target.string()
              << "; torch-headroom plan and frontier use this file for steps of this GPU\n";
    return 0;
}

} // namespace

void addCalibrate(CLI::App& program, Action& chosen)
{
    const auto arguments = std::make_shared<CalibrateArguments>();
    CLI::App* command
        = addCommand(program, "calibrate", "Learn how long ops take on a GPU from steps that were measured there");
    command
        ->add_option("step", arguments->steps,
                     "Step files, recorded with --device cuda, or traces of torch.profiler; or what nccl-tests printed")
        ->required();
    CLI::Option* gpu = command
                           ->add_option("--gpu", arguments->gpu,
                                        "Of a trace: the card, if the trace names no card that Headroom knows")
                           ->transform(gpuName);
    CLI::Option* step
        = command
              ->add_option(
                  "--step", arguments->predicted,
                  "Of a trace: the simulated step of the same training; costs of ops come from that step, paired by "
                  "order, and the trace needs no shapes")
              ->type_name("FILE");
    addProfileArgument(*command, arguments->profileStep);
    command
        ->add_option("--topology", arguments->topology,
                     "Of nccl-tests, or of NCCL's kernels in a trace: the topology on which the collectives ran; -o "
                     "writes the topology with measured bandwidths")
        ->type_name("NAME|FILE")
        ->excludes(gpu, step, command->get_option("--profile-step"));
    command->add_option("-o,--output", arguments->output,
                        "The calibration to write or to add to (default: a file per GPU in the user's configuration)");
    addJsonFlag(*command, arguments->json);
    command->callback([=, &chosen] { chosen = [=] { return run(*command, *arguments); }; });
}

} // namespace headroom::cli
