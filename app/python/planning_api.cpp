// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/python/planning_api.h"

#include "core/base/bytes.h"
#include "core/base/json_reader.h"
#include "core/base/json_text.h"
#include "core/base/try.h"
#include "core/cost/device_specs.h"
#include "core/cost/step_times.h"
#include "core/fit/fit.h"
#include "core/fit/fit_report.h"
#include "core/policy/card_planner.h"
#include "core/policy/policy.h"
#include "core/trace/step_file.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace headroom::python {
namespace {

constexpr std::size_t mostOps = 40;

struct OpTotal
{
    std::int64_t count = 0;
    double ms = 0;
};

Status learn(const char* measuredStep, const char* file)
{
    ASSIGN_OR_RETURN(const auto step, readStepTrace(measuredStep));
    ASSIGN_OR_RETURN(const auto learned, calibrate(*step, measuredStep));
    return addToCalibration(learned, file);
}

nlohmann::json timesOf(const StepTrace& step)
{
    double sum = 0;
    double recomputed = 0;
    std::map<std::string_view, double> phases;
    std::map<std::string_view, OpTotal> totals;
    for (std::uint32_t row = 0; row < step.ops.size(); ++row) {
        const OpId op(row);
        const double ms = step.ops.ms[op];
        sum += ms;
        if ((step.ops.flags[op] & opRecomputed) != 0)
            recomputed += ms;
        phases[phaseName(step.ops.phase[op])] += ms;
        OpTotal& total = totals[step.opName(op)];
        total.ms += ms;
        ++total.count;
    }
    std::vector<std::pair<std::string_view, OpTotal>> longest(totals.begin(), totals.end());
    std::ranges::stable_sort(longest, std::ranges::greater(), [](const auto& op) { return op.second.ms; });
    longest.resize(std::min(longest.size(), mostOps));
    nlohmann::json document{{"step_ms", sum}, {"recompute_ms", recomputed}, {"phases", phases}};
    document["ops"] = nlohmann::json::array();
    for (const auto& [name, total] : longest)
        document["ops"].push_back({name, total.count, total.ms});
    return document;
}

Result<std::string> times(const char* file, const char* calibrationFile)
{
    ASSIGN_OR_RETURN(auto step, readStepTrace(file));
    const std::string calibration = *calibrationFile != 0 ? calibrationFile : "none";
    const auto timed = withTimes(std::move(step), TimeChoice{TimeModel::kernel, {}, calibration});
    if (!timed)
        return timed.error();
    return jsonText(timesOf(*timed->step));
}

Result<StepTracePtr> stepToPlan(const char* file)
{
    ASSIGN_OR_RETURN(StepTracePtr step, readStepTrace(file));
    ASSIGN_OR_RETURN(TimedStep timed, withTimes(std::move(step), TimeChoice{}));
    RETURN_IF_ERROR(plannable(*timed.step));
    return std::move(timed.step);
}

Result<PlanRequest> planRequest(const char* text)
{
    ASSIGN_OR_RETURN(const json::Json wishes, json::parse(text, "the wishes"));
    PlanRequest request;
    request.offload = wishes.at("offload").get<bool>();
    request.hostMemory = wishes.at("host_memory").get<Bytes>();
    request.recompute = wishes.at("recompute").get<bool>();
    ASSIGN_OR_RETURN(request.pins, parsePins(wishes.at("pins").get<std::vector<std::string>>()));
    return request;
}

Result<std::string> plan(const char* file, const char* gpu, Bytes budget, Bytes margin,
                         const std::optional<std::string>& settings, const char* policyFile, const char* wishes)
{
    ASSIGN_OR_RETURN(const PlanRequest request, planRequest(wishes));
    ASSIGN_OR_RETURN(const StepTracePtr step, stepToPlan(file));
    ASSIGN_OR_RETURN(const DeviceSpec spec, findDeviceSpec(gpuName(gpu)));
    ASSIGN_OR_RETURN(Card card, cardFor(spec, *step, settings.value_or(recordedAllocatorSettings(step->info))));
    card.margin = margin;
    // A share, not a smaller card: with expandable segments PyTorch runs out of the two in different ways.
    if (budget > 0)
        card.rules.memoryFraction = static_cast<double>(budget) / static_cast<double>(spec.memory);
    ASSIGN_OR_RETURN(const StepPlanner planner, StepPlanner::create(step));
    ASSIGN_OR_RETURN(const PlanAnswer answer,
                     planForCardAndSettings(planner, request, std::make_shared<const Card>(std::move(card))));
    if (answer.fits() && !answer.regions.empty()) {
        Policy policy = answer.policy(planner.model());
        noteCard(policy, *answer.card->card, answer.card->run, answer.card->leastMemory, settings);
        RETURN_IF_ERROR(writePolicy(policy, policyFile));
    }
    ASSIGN_OR_RETURN(const ModuleInfo info, modulesToPlan(planner.model()));
    return jsonText(toJson(answer, step.get(), info, true));
}

using Json = nlohmann::ordered_json;

constexpr std::int64_t sequenceStep = 64; ///< of a range without a step, as of `torch-headroom fit --seq`

Result<Sizes> sizesOf(const Json& request, const char* name, std::int64_t step)
{
    const auto text = request.at(name).get<std::string>();
    if (text.empty())
        return Sizes();
    Result<Sizes> sizes = Sizes::parse(text, step);
    if (!sizes)
        return Error{sizes.error().kind, std::string(name) + " " + sizes.error().message};
    return sizes;
}

Result<FitRequest> requestOf(const Json& json)
{
    FitRequest request;
    request.gpus = json.at("gpus").get<std::vector<std::string>>();
    ASSIGN_OR_RETURN(request.batch, sizesOf(json, "batch", 1));
    ASSIGN_OR_RETURN(request.sequence, sizesOf(json, "seq", sequenceStep));
    request.globalBatch = json.at("global_batch").get<std::int64_t>();
    request.share = json.at("share").get<double>();
    request.beside = json.at("beside").get<Bytes>();
    if (!json.at("settings").is_null())
        request.settings = json.at("settings").get<std::string>();
    request.sizeName = json.at("size_name").get<std::string>();
    return request;
}

Result<RecordedStep> recordedStep(const Json& answer)
{
    const std::filesystem::path file = answer.at("step").get<std::string>();
    ASSIGN_OR_RETURN(StepTracePtr step, readStepTrace(file));
    return RecordedStep{std::move(step), file};
}

/// The caller's answers for sizes: a list, or nothing where the search stops.
Json answersFor(HeadroomRecordSteps record, std::stop_source& stop, std::span<const StepSize> sizes,
                const std::string& gpu)
{
    Json asked{{"gpu", gpu}, {"sizes", Json::array()}};
    for (const StepSize& size : sizes)
        asked["sizes"].push_back({{"batch", size.batch}, {"seq", size.sequence}, {"accumulation", size.accumulation}});
    std::string text;
    if (record(jsonText(asked).c_str(), &text) != 0)
        stop.request_stop();
    const Result<json::Json> answers = json::parse(text, "the recorder's answers");
    return answers ? Json(*answers) : Json();
}

/// The caller's recorder as RecordSteps. Stops the search where the caller says so. A kept file that is damaged is
/// removed, and asked for again.
std::vector<Result<RecordedStep>> recorded(HeadroomRecordSteps record, std::stop_source& stop,
                                           std::span<const StepSize> sizes, const std::string& gpu)
{
    const Json answers = answersFor(record, stop, sizes, gpu);
    std::vector<Result<RecordedStep>> steps;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        if (!answers.is_array() || i >= answers.size()) {
            steps.push_back(Error{ErrorKind::internal, "the recorder of a size gave no answer"});
            continue;
        }
        if (answers[i].contains("failure")) {
            steps.push_back(badInput(answers[i].at("failure").get<std::string>()));
            continue;
        }
        Result<RecordedStep> step = recordedStep(answers[i]);
        if (!step) {
            std::error_code ignored;
            std::filesystem::remove(answers[i].at("step").get<std::string>(), ignored);
            const Json again = answersFor(record, stop, sizes.subspan(i, 1), gpu);
            if (again.is_array() && !again.empty() && again[0].contains("step"))
                step = recordedStep(again[0]);
        }
        steps.push_back(std::move(step));
    }
    return steps;
}

/// Writes the policies of recorded rows beside the steps, and adds to `document` what headroom_fit() says.
Status complete(const FitResult& result, const FitRequest& request, const std::string& name, Json& document)
{
    for (std::size_t i = 0; i < result.series.size(); ++i) {
        const FitSeries& series = result.series[i];
        Json& json = document["series"][i];
        json["findings"] = findings(series, request);
        for (std::size_t at = 0; at < series.rows.size(); ++at) {
            const FitRow& row = series.rows[at];
            if (row.isRecorded && row.step.step)
                json["rows"][at]["remarks"] = row.step.step->info.remarks;
            if (!row.plan || !row.isRecorded || row.step.file.empty())
                continue;
            ASSIGN_OR_RETURN(const Card card, cardOf(request, series.gpu, *row.step.step));
            Policy policy = row.plan->policy(row.step.step);
            noteCard(policy, card, row.best().card, 0, request.settings);
            const std::filesystem::path file
                = row.step.file.parent_path() / ("policy-" + name + "-" + series.gpu + ".json");
            RETURN_IF_ERROR(writePolicy(policy, file));
            json["rows"][at]["policy"] = file.string();
        }
    }
    return {};
}

Result<std::string> fitted(const char* text, HeadroomRecordSteps record, HeadroomFitProgress progress)
{
    ASSIGN_OR_RETURN(const json::Json read, json::parse(text, "the request of fit()"));
    const Json json(read);
    ASSIGN_OR_RETURN(const FitRequest request, requestOf(json));
    std::stop_source stop;
    std::string said;
    const auto tell = [&](const FitSeries& series, const std::string& next) {
        // Without words too: the caller may want to stop.
        const std::string sentence = next.empty() || next == said ? "" : series.gpu + ": " + next;
        said = next;
        if (progress(sentence.c_str()) != 0)
            stop.request_stop();
    };
    const RecordSteps steps = [&](std::span<const StepSize> sizes, const std::string& gpu, const std::stop_token&) {
        return recorded(record, stop, sizes, gpu);
    };
    ASSIGN_OR_RETURN(const FitResult result, fit(request, steps, tell, stop.get_token()));
    Json document = toJson(result);
    RETURN_IF_ERROR(complete(result, request, json.at("policies").get<std::string>(), document));
    return jsonText(document);
}

} // namespace
} // namespace headroom::python

using namespace headroom;

int headroom_calibrate(const char* measured_step, const char* calibration_file)
{
    return python::guarded([&] { return python::learn(measured_step, calibration_file); });
}

const char* headroom_step_times(const char* step, const char* calibration_file)
{
    return python::guardedText([&] { return python::times(step, calibration_file); });
}

const char* headroom_plan(const char* step, const char* gpu, std::int64_t budget, std::int64_t margin,
                          const char* settings, const char* policy, const char* wishes)
{
    return python::guardedText([&] {
        const auto chosen = settings != nullptr ? std::optional<std::string>(settings) : std::nullopt;
        return python::plan(step, gpu, budget, margin, chosen, policy, wishes);
    });
}

const char* headroom_format_bytes(std::int64_t bytes)
{
    static thread_local std::string text;
    text = formatBytes(bytes);
    return text.c_str();
}

const char* headroom_name_of_gpu(const char* title, std::int64_t memory, int computeCapability, int multiprocessors)
{
    static thread_local std::string name;
    GpuFacts facts;
    facts.name = title;
    facts.memory = memory;
    facts.computeCapability = computeCapability;
    facts.multiprocessors = multiprocessors;
    name = deviceSpecOf(facts).name;
    return findDeviceSpec(name) ? name.c_str() : "";
}

void headroom_fit_recorded(void* reply, const char* answers)
{
    *static_cast<std::string*>(reply) = answers;
}

const char* headroom_fit(const char* request, HeadroomRecordSteps record, HeadroomFitProgress progress)
{
    return python::guardedText([&] { return python::fitted(request, record, progress); });
}
