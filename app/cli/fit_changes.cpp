// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/fit/changes.h"

#include "app/cli/command.h"
#include "app/cli/fit_arguments.h"
#include "app/cli/table.h"
#include "core/base/try.h"

#include <cmath>
#include <iostream>

namespace headroom::cli {

namespace {

std::string addedText(const Change& change)
{
    if (change.stepMs <= 0)
        return "-";
    const double ms = change.addedMs;
    if (std::abs(ms) < 0.005)
        return "0";
    return (ms > 0 ? "+" : "\u2212") + formatMs(std::abs(ms));
}

void print(const Changes& changes, const Card& card)
{
    using enum Table::Align;
    const Unchanged& before = changes.before;
    std::cout << card.title << ": the step " << (before.run.runs ? "runs" : "does not run") << ", "
              << exactBytes(before.peak) << " allocated at its peak, " << formatMs(before.stepMs) << '\n';
    if (!before.run.runs)
        std::cout << before.run.reason << '\n';
    std::cout << '\n';
    if (changes.list.empty()) {
        std::cout << "No change that was tried frees memory.\n";
        return;
    }
    Table table({{"Costs"}, {"Change"}, {"Frees", right}, {"Reserved", right}, {"Runs"}, {"Step", right}, {"Source"}});
    for (const Change& change : changes.list)
        table.addRow({std::string(changeCostName(change.cost)), change.what, formatBytes(change.freed),
                      change.runs() ? formatBytes(change.run.reservedPeak) : "-", change.runs() ? "yes" : "no",
                      addedText(change), std::string(changeSource(change))});
    table.print(std::cout);
    std::cout << '\n';
    for (const Change& change : changes.list)
        std::cout << change.what << ": " << change.how << (change.rests.empty() ? "" : "; calculated: " + change.rests)
                  << '\n';
}

} // namespace

Result<int> runChanges(const FitArguments& arguments, const Asked& asked, FitRecorder& recorder)
{
    const FitRequest& request = asked.request;
    if (request.batch.count() != 1 || request.sequence.count() != 1)
        return badInput("--changes is about a step of one size: expected one batch, such as "
                        + std::string(asked.program.isScript ? "--vary --batch-size=8" : "--batch 8"));
    const StepSize size{request.batch.at(0), request.sequence.at(0), 1};
    const std::string& gpu = request.gpus.front();
    std::vector<Result<RecordedStep>> recorded = recorder.record(std::span(&size, 1), gpu, {});
    if (!recorded.front())
        return recorded.front().error();
    const auto timed = [&](StepTracePtr step) -> Result<StepTracePtr> {
        TimeChoice times = request.times;
        times.gpu = gpu;
        ASSIGN_OR_RETURN(TimedStep at, withTimes(std::move(step), times));
        return at.step;
    };
    ASSIGN_OR_RETURN(const StepTracePtr step, timed(recorded.front()->step));
    ASSIGN_OR_RETURN(const Card card, cardOf(request, gpu, *step));
    RecordVariant variant;
    if (!asked.program.isScript)
        variant = [&](const std::vector<std::string>& options) -> Result<StepTracePtr> {
            ASSIGN_OR_RETURN(const RecordedStep other, recorder.recordVariant(size, options, gpu, {}));
            return timed(other.step);
        };
    ASSIGN_OR_RETURN(const Changes changes, changesThatHelp(step, card, variant));
    recorder.finish();
    if (arguments.json)
        printJson(toJson(changes));
    else
        print(changes, card);
    return 0;
}

} // namespace headroom::cli
