// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/fit/fit_report.h"

#include "core/base/bytes.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <sstream>
#include <utility>

namespace headroom {
namespace {

using Json = nlohmann::ordered_json;

Json runJson(const FitRun& run)
{
    Json json{{"runs", run.runs()},
              {"peak_bytes", run.peak},
              {"reserved_peak_bytes", run.card.reservedPeak},
              {"reserved_peak_without_workspaces_bytes", run.card.reservedWithoutWorkspaces},
              {"left_bytes", run.runs() ? Json(run.card.left) : Json()},
              {"step_ms", run.stepMs > 0 ? Json(run.stepMs) : Json()},
              {"recompute_ms", run.recomputeMs},
              {"samples_per_second", run.samplesPerSecond > 0 ? Json(run.samplesPerSecond) : Json()},
              {"tokens_per_second", run.tokensPerSecond > 0 ? Json(run.tokensPerSecond) : Json()}};
    if (!run.card.reason.empty())
        json["reason"] = run.card.reason;
    if (!run.card.assumptions.empty())
        json["assumptions"] = run.card.assumptions;
    return json;
}

Json rowJson(const FitRow& row)
{
    Json json{{"batch", row.size.batch},
              {"sequence", row.size.sequence > 0 ? Json(row.size.sequence) : Json()},
              {"accumulation", row.size.accumulation},
              {"source", sourceOf(row)}};
    if (!row.failure.empty()) {
        json["failure"] = row.failure;
        return json;
    }
    json["fits"] = row.runs();
    json["plain"] = runJson(row.plain);
    json["planned"] = row.planned ? runJson(*row.planned) : Json();
    if (row.plan)
        json["planned"]["decisions"] = row.plan->plan.decisions;
    json["step"] = row.step.file.empty() ? Json() : Json(row.step.file.string());
    return json;
}

Json indexJson(const std::optional<std::size_t>& index)
{
    return index ? Json(*index) : Json();
}

/// A number with as many digits as a person reads: "43.1", "1,234".
std::string rateText(double rate)
{
    if (rate >= 1000)
        return groupedDigits(std::llround(rate));
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), rate < 10 ? "%.2f" : "%.1f", rate);
    return text.data();
}

std::int64_t sizeOf(const FitRow& row, const FitRequest& request)
{
    return request.sequence.isRange() ? row.size.sequence : row.size.batch;
}

std::string rateOf(const FitRun& run)
{
    if (run.samplesPerSecond <= 0)
        return {};
    std::string text = ", " + rateText(run.samplesPerSecond) + " samples/s";
    if (run.tokensPerSecond > 0)
        text += ", " + rateText(run.tokensPerSecond) + " tokens/s";
    return text;
}

} // namespace

std::string_view sourceOf(const FitRow& row)
{
    return !row.failure.empty() ? "failed" : row.isRecorded ? "recorded" : "calculated";
}

std::string_view verdictOf(const FitRow& row)
{
    if (!row.failure.empty())
        return "failed";
    return row.plain.runs() ? "yes" : row.runs() ? "with a plan" : "no";
}

std::vector<std::string> findings(const FitSeries& series, const FitRequest& request)
{
    std::vector<std::string> sentences;
    const auto named = [&](std::size_t index) {
        return request.sizeName + " " + std::to_string(sizeOf(series.rows[index], request));
    };
    if (!series.largest) {
        sentences.emplace_back("no size that was tried runs");
    } else {
        const FitRow& largest = series.rows[*series.largest];
        sentences.push_back("largest: " + named(*series.largest) + (largest.plain.runs() ? "" : ", with a plan")
                            + rateOf(largest.best()) + (series.isBounded ? "" : "; larger sizes were not tried"));
    }
    const std::size_t after = series.largest ? *series.largest + 1 : 0;
    if (after < series.rows.size() && series.rows[after].failure.empty())
        sentences.push_back(named(after) + " does not run: " + series.rows[after].best().card.reason);
    if (series.largestPlain && series.largestPlain != series.largest)
        sentences.push_back("largest without a plan: " + named(*series.largestPlain)
                            + rateOf(series.rows[*series.largestPlain].plain));
    if (!series.fastest)
        return sentences;
    const FitRow& fastest = series.rows[*series.fastest];
    std::string sentence
        = "fastest: " + named(*series.fastest) + (fastest.plain.runs() ? "" : ", with a plan") + rateOf(fastest.best());
    if (series.largestPlain && series.fastest != series.largestPlain) {
        const auto rate = [&](const FitRun& run) {
            return request.sequence.isRange() ? run.tokensPerSecond : run.samplesPerSecond;
        };
        const double plain = rate(series.rows[*series.largestPlain].plain);
        if (plain > 0)
            sentence += ", " + rateText((rate(fastest.best()) / plain - 1) * 100)
                + " % more than the largest without a plan";
    }
    sentences.push_back(std::move(sentence));
    return sentences;
}

std::vector<std::string> failures(const FitSeries& series, const FitRequest& request)
{
    std::vector<std::pair<std::string, std::string>> causes; // the cause, and the sizes
    for (const FitRow& row : series.rows) {
        if (row.failure.empty())
            continue;
        const std::string size = std::to_string(sizeOf(row, request));
        // A message that begins with the argument is the same for each size.
        const std::string name = request.sizeName + " " + size + ": ";
        const std::string cause = row.failure.starts_with(name) ? row.failure.substr(name.size()) : row.failure;
        const auto known = std::ranges::find(causes, cause, &std::pair<std::string, std::string>::first);
        if (known == causes.end())
            causes.emplace_back(cause, size);
        else
            known->second += ", " + size;
    }
    std::vector<std::string> sentences;
    for (const auto& [cause, sizes] : causes)
        sentences.push_back(request.sizeName + " " + sizes + " failed: " + cause);
    return sentences;
}

Json toJson(const FitResult& result)
{
    Json document{{"series", Json::array()}, {"recordings", result.recordings}};
    for (const FitSeries& series : result.series) {
        Json json{{"gpu", series.gpu}, {"rows", Json::array()}};
        for (const FitRow& row : series.rows)
            json["rows"].push_back(rowJson(row));
        json["largest_without_plan"] = indexJson(series.largestPlain);
        json["largest"] = indexJson(series.largest);
        json["fastest"] = indexJson(series.fastest);
        json["bounded"] = series.isBounded;
        json["remarks"] = series.remarks;
        document["series"].push_back(std::move(json));
    }
    return document;
}

std::string toCsv(const FitResult& result)
{
    std::ostringstream out;
    out << "gpu,batch,sequence,accumulation,source,fits,peak_bytes,reserved_peak_bytes,recompute_ms,step_ms,"
           "samples_per_second,tokens_per_second\n";
    for (const FitSeries& series : result.series)
        for (const FitRow& row : series.rows) {
            const FitRun& run = row.best();
            out << series.gpu << ',' << row.size.batch << ',' << row.size.sequence << ',' << row.size.accumulation
                << ',' << sourceOf(row) << ',' << verdictOf(row) << ',';
            if (row.failure.empty())
                out << run.peak << ',' << run.card.reservedPeak << ',' << run.recomputeMs << ',' << run.stepMs << ','
                    << run.samplesPerSecond << ',' << run.tokensPerSecond;
            else
                out << ",,,,,";
            out << '\n';
        }
    return out.str();
}

} // namespace headroom
