// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/record/record_command.h"

#include "app/record/confinement.h"
#include "core/base/atomic_write.h"
#include "core/base/bytes.h"
#include "core/base/elapsed.h"
#include "core/base/json_text.h"
#include "core/base/try.h"
#include "core/checkpoint/module_checkpoints.h"
#include "core/device/real_device.h"
#include "core/device/simulated_device.h"
#include "core/model/settings.h"
#include "core/model/step_runner.h"
#include "core/predict/predict.h"
#include "core/record/interceptor.h"
#include "core/sac/record_summary.h"
#include "core/trace/out_of_memory.h"
#include "core/trace/step_file.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <torch/version.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <optional>

namespace headroom {
namespace {

Result<SettingsReader::Settings> splitSettings(const std::vector<std::string>& given)
{
    SettingsReader::Settings settings;
    for (const std::string& text : given) {
        const std::size_t equals = text.find('=');
        if (equals == 0 || equals == std::string::npos)
            return badInput("--set " + text + ": expected KEY=VALUE, for example --set n_layers=12");
        settings.emplace_back(text.substr(0, equals), text.substr(equals + 1));
    }
    return settings;
}

Result<std::vector<InputShape>> readInputs(const std::vector<std::string>& given)
{
    std::vector<InputShape> inputs;
    for (const std::string& text : given) {
        ASSIGN_OR_RETURN(auto input, parseInputShape(text));
        inputs.push_back(std::move(input));
    }
    return inputs;
}

/// Checks the output before the step runs. writeStepTrace() reports other errors after the step.
Status checkOutput(const RecordOptions& options)
{
    const std::string& output = options.output;
    if (output.empty())
        return badInput("-o is missing: name the step file to write, for example -o step.hrs");
    std::error_code ignored;
    const std::filesystem::path path(output);
    if (std::filesystem::is_directory(path, ignored))
        return badInput("-o " + output + " is a folder; name a step file in the folder, for example -o "
                        + (path / "step.hrs").string());
    const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
    if (!std::filesystem::is_directory(folder, ignored))
        return badInput("-o " + output + ": there is no folder " + folder.string() + "; create the folder first");
    for (const std::string& input : {options.model, options.policy})
        RETURN_IF_ERROR(checkReplaced(output, input));
    return {};
}

/// Returns the arguments that record the same step again: a model file by the full path, and options without defaults.
std::vector<std::string> argumentsAgain(const RecordOptions& given)
{
    const RecordOptions standard;
    std::error_code ignored;
    const bool file = std::filesystem::is_regular_file(given.model, ignored);
    std::vector<std::string> arguments{file ? std::filesystem::absolute(given.model).string() : given.model};
    const auto add = [&](const char* option, const auto& value, const auto& usual) {
        if (value != usual)
            arguments.insert(arguments.end(), {option, CLI::detail::to_string(value)});
    };
    add("--device", given.device, standard.device);
    add("--gpu", given.gpu, standard.gpu);
    add("--batch", given.batch, standard.batch);
    add("--seq", given.sequence, standard.sequence);
    add("--accumulate", given.accumulation, standard.accumulation);
    add("--dtype", given.dtype, standard.dtype);
    add("--optimizer", given.optimizer, standard.optimizer);
    add("--momentum", given.momentum, standard.momentum);
    add("--loss", given.loss, standard.loss);
    add("--lifetimes", given.lifetimes, standard.lifetimes);
    if (!given.policy.empty())
        arguments.insert(arguments.end(), {"--policy", std::filesystem::absolute(given.policy).string()});
    for (const std::string& setting : given.settings)
        arguments.insert(arguments.end(), {"--set", setting});
    for (const std::string& input : given.inputs)
        arguments.insert(arguments.end(), {"--input", input});
    if (given.autocast)
        arguments.emplace_back("--autocast");
    if (given.holdOutput)
        arguments.emplace_back("--hold-output");
    return arguments;
}

Result<RecordingDevice> readRecordingDevice(const std::string& device)
{
    if (device == "sim")
        return RecordingDevice::sim;
    if (device == "cpu")
        return RecordingDevice::cpu;
    const bool cuda = device == "cuda"
        || (device.starts_with("cuda:") && device.size() > 5 && device.size() < 9
            && device.find_first_not_of("0123456789", 5) == std::string::npos);
    if (cuda)
        return RecordingDevice::cuda;
    return badInput("unknown device '" + device + "'; known are sim, the simulated GPU, cpu, and cuda or cuda:N");
}

/// Parses the value of an option that may be left out.
template <class Value, class Parse>
Status readChoice(const std::string& text, Parse parse, std::optional<Value>& value)
{
    if (text.empty())
        return {};
    ASSIGN_OR_RETURN(value, parse(text));
    return {};
}

} // namespace

void listGpus()
{
    std::size_t longest = 0;
    for (const DeviceSpec& spec : deviceSpecs())
        longest = std::max(longest, spec.name.size());
    for (const DeviceSpec& spec : deviceSpecs())
        std::cout << std::left << std::setw(static_cast<int>(longest) + 2) << spec.name << spec.title << ", "
                  << formatBytes(spec.memory, 0) << '\n';
}

Result<StepRequest> readStepRequest(const RecordOptions& options)
{
    if (options.model.empty())
        return badInput("MODEL is missing: name a model, for example demo:transformer");
    ASSIGN_OR_RETURN(const auto device, readRecordingDevice(options.device));
    if (device != RecordingDevice::sim && options.gpu != defaultDeviceName)
        return badInput("--gpu names the simulated card: leave --gpu out with --device " + options.device);
    ASSIGN_OR_RETURN(auto settings, splitSettings(options.settings));
    ASSIGN_OR_RETURN(auto inputs, readInputs(options.inputs));
    ASSIGN_OR_RETURN(const auto gpu, findDeviceSpec(gpuName(options.gpu)));
    std::optional<at::ScalarType> dtype;
    RETURN_IF_ERROR(readChoice(options.dtype, parseDType, dtype));
    if (options.autocast && dtype.value_or(at::kFloat) != at::kFloat)
        return badInput("--autocast keeps parameters in float32; leave out --dtype " + options.dtype);
    std::optional<Lifetimes> lifetimes;
    RETURN_IF_ERROR(readChoice(options.lifetimes, parseLifetimes, lifetimes));
    ASSIGN_OR_RETURN(const auto optimizer, parseOptimizer(options.optimizer));
    if (options.momentum != 0 && optimizer != OptimizerChoice::Algorithm::sgd)
        return badInput("--momentum is SGD's; " + options.optimizer + " has none");
    std::optional<Loss> loss;
    RETURN_IF_ERROR(readChoice(options.loss, parseLoss, loss));

    StepRequest request;
    request.recordingDevice = device;
    request.model = {.name = options.model,
                     .batch = options.batch,
                     .sequence = options.sequence,
                     .dtype = dtype,
                     .lifetimes = lifetimes,
                     .settings = settings,
                     .inputs = std::move(inputs)};
    request.step = {.optimizer = {optimizer, options.momentum},
                    .loss = loss.value_or(Loss::automatic),
                    .autocast = options.autocast,
                    .holdOutput = options.holdOutput,
                    .accumulation = options.accumulation};
    request.gpu = gpu;
    request.info.model = options.model;
    request.info.gpu = gpu.name;
    request.info.device = options.device;
    request.info.torch = TORCH_VERSION;
    request.info.optimizer = options.optimizer;
    request.info.settings = std::move(settings);
    request.info.arguments = argumentsAgain(options);
    return request;
}

ProgressReport progressTo(std::ostream& stream, bool wanted, const ProgressReport& watch)
{
    if (!wanted)
        return watch;
    return [&stream, &watch](std::string_view stage, double done) {
        watch(stage, done);
        stream << jsonText(nlohmann::json{{"stage", stage}, {"done", done}}) << std::endl;
    };
}

namespace {

/// Confines this process, and limits memory to what the machine has.
void confine(const std::vector<std::filesystem::path>& readable, bool gpu)
{
    if (!gpu)
        limitMemory();
    if (confineProcess(readable, gpu).empty())
        std::cerr << "note: this system has neither Landlock nor seccomp: a model file that attacks libtorch could "
                     "write other files\n";
}

void simulate(StepRequest& request)
{
    sim::initialize(request.gpu);
    sim::keepValues();
    interceptThread();
    request.model.device = sim::device();
}

} // namespace

Status openDevice(StepRequest& request, const std::vector<std::string>& readable)
{
    std::vector<std::filesystem::path> files(readable.begin(), readable.end());
    files.emplace_back(request.model.name);
    // NVIDIA's driver opens devices and libraries first.
    if (request.recordingDevice != RecordingDevice::cuda)
        confine(files, false);
    if (request.recordingDevice == RecordingDevice::sim) {
        simulate(request);
        return {};
    }
    if (request.recordingDevice == RecordingDevice::cpu) {
        request.step.real = openCpu();
    } else {
        const std::string& name = request.info.device;
        ASSIGN_OR_RETURN(request.step.real, openCuda(name.size() > 5 ? std::stoi(name.substr(5)) : 0));
        confine(files, true);
    }
    request.gpu = request.step.real->spec();
    request.model.device = request.step.real->device();
    request.info.device = request.model.device.str();
    request.info.gpu = request.gpu.name;
    return {};
}

namespace {

/// Records the step. If the device's memory runs out, `interrupted` is the step up to there.
Result<StepTracePtr> recordStep(StepRequest& request, const std::string& policyFile, const ProgressReport& progress,
                                std::vector<std::string>& notes, StepTracePtr& interrupted)
{
    RETURN_IF_ERROR(openDevice(request, {policyFile}));
    ASSIGN_OR_RETURN(auto source, openModel(request.model));
    notes = source->notes();
    std::shared_ptr<ModuleCheckpoints> checkpoints;
    if (!policyFile.empty()) {
        ASSIGN_OR_RETURN(const auto policy, readPolicy(policyFile));
        ASSIGN_OR_RETURN(auto made, ModuleCheckpoints::create(source->tree(), policy, ModuleCheckpoints::Match::exact));
        request.step.moduleCalls = checkpoints = std::move(made);
        request.info.policy = std::filesystem::absolute(policyFile).string();
    }
    StepRunner runner(*source, request.step);
    auto trace = runner.record(std::move(request.info), request.gpu, progress);
    interrupted = runner.interrupted();
    if (request.step.real)
        request.step.real->stopTracing();
    if (trace && checkpoints)
        RETURN_IF_ERROR(checkpoints->allRan());
    return trace;
}

/// Writes the step up to where memory ran out. Returns `error` with a note on the file.
Error keepInterrupted(const StepTrace& step, RecordJob& job, const ProgressReport& watch, Error error)
{
    const std::string& output = job.options.output;
    RETURN_IF_ERROR(writeStepTrace(step, *job.file));
    watch("done", 1);
    const std::vector<OutOfMemory> failures = outOfMemoryEvents(step);
    const ModuleId module = failures.empty() ? ModuleId() : step.ops.module[failures.back().op];
    error.message += "; " + output + " holds the step up to there";
    if (module.valid())
        error.message += ", in " + std::string(step.moduleFqn(module));
    return error;
}

} // namespace

Result<RecordJob> prepareRecord(const RecordOptions& options)
{
    ASSIGN_OR_RETURN(auto request, readStepRequest(options));
    RETURN_IF_ERROR(checkOutput(options));
    ASSIGN_OR_RETURN(auto file, AtomicFile::create(options.output));
    return RecordJob{options, std::move(request), std::make_shared<AtomicFile>(std::move(file))};
}

Status runRecord(RecordJob& job, const ProgressReport& watch)
{
    const RecordOptions& options = job.options;
    StepRequest& request = job.request;
    const auto begin = std::chrono::steady_clock::now();
    const ProgressReport progress = progressTo(std::cerr, options.progress, watch);
    std::vector<std::string> notes;
    StepTracePtr interrupted;
    const auto trace = recordStep(request, options.policy, progress, notes, interrupted);
    if (!trace)
        return interrupted ? keepInterrupted(*interrupted, job, watch, trace.error()) : trace.error();
    ASSIGN_OR_RETURN(const auto timeline, predict(**trace, {}));
    progress("write", 0.95);
    RETURN_IF_ERROR(writeStepTrace(**trace, *job.file));
    nlohmann::ordered_json summary = recordSummary(**trace, request.gpu, timeline);
    summary["step"] = options.output;
    summary["record_ms"] = elapsedMs(begin);
    summary["notes"] = notes;
    progress("done", 1);
    std::cout << (options.json ? jsonText(summary, 2) + '\n' : recordText(summary));
    return {};
}

} // namespace headroom
