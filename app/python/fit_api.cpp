// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/python/fit_api.h"

#include "core/base/json_reader.h"
#include "core/base/json_text.h"
#include "core/base/try.h"
#include "core/fit/fit.h"
#include "core/fit/fit_report.h"
#include "core/policy/policy.h"
#include "core/trace/step_file.h"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <stop_token>
#include <string>

namespace headroom::python {
namespace {

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

void headroom_fit_recorded(void* reply, const char* answers)
{
    *static_cast<std::string*>(reply) = answers;
}

const char* headroom_fit(const char* request, HeadroomRecordSteps record, HeadroomFitProgress progress)
{
    return python::guardedText([&] { return python::fitted(request, record, progress); });
}
