// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/fit/changes.h"

#include "app/cli/command.h"
#include "app/cli/fit_arguments.h"
#include "app/cli/table.h"
#include "core/base/try.h"
#include "core/fit/fit_row.h"

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

void printList(const std::vector<Change>& list)
{
    using enum Table::Align;
    Table table({{"Costs"}, {"Change"}, {"Frees", right}, {"Reserved", right}, {"Runs"}, {"Step", right}, {"Source"}});
    for (const Change& change : list)
        table.addRow({std::string(changeCostName(change.cost)), change.what, formatBytes(change.freed),
                      change.runs() ? formatBytes(change.run.reservedPeak) : "-", change.runs() ? "yes" : "no",
                      addedText(change), std::string(changeSource(change))});
    table.print(std::cout);
    std::cout << '\n';
    for (const Change& change : list)
        std::cout << change.what << ": " << change.how << (change.rests.empty() ? "" : "; calculated: " + change.rests)
                  << '\n';
}

void print(const Changes& changes, const Card& card, const std::vector<std::string>& untried)
{
    const Unchanged& before = changes.before;
    std::cout << card.title << ": the step " << (before.run.runs ? "runs" : "does not run") << ", "
              << exactBytes(before.peak) << " allocated at the peak, " << formatMs(before.stepMs) << '\n';
    if (!before.run.runs)
        std::cout << before.run.reason << '\n';
    std::cout << '\n';
    if (changes.list.empty())
        std::cout << "No change that was tried frees memory.\n";
    else
        printList(changes.list);
    for (const std::string& sentence : untried)
        std::cout << "not tried: " << sentence << '\n';
}

/// What keeps a script from being recorded at half the batch; empty: nothing does.
std::string obstacleToHalf(const FitProgram& program, const StepSize& size, const StepTrace& step)
{
    if (program.batch.name.empty() || program.accumulation.name.empty())
        return "name the arguments for batch and micro-batches with --vary and --vary-accumulation";
    if (step.info.batch != size.batch)
        return program.batch.name + " is " + std::to_string(size.batch) + ", and the recorded step has a batch of "
            + std::to_string(step.info.batch);
    return size.batch % 2 == 0 ? "" : "the batch, " + std::to_string(size.batch) + ", is odd";
}

/// What is not tried of a script, a sentence each. `obstacle` keeps the script from half the batch; empty: nothing
/// does.
std::vector<std::string> untriedOf(const StepTrace& step, const std::string& obstacle)
{
    std::vector<std::string> sentences;
    if (!obstacle.empty())
        sentences.push_back("half the batch in two micro-batches: " + obstacle);
    if (!step.info.autocast && step.info.dtype == dtypeName(DType::float32))
        sentences.emplace_back(
            "autocast and bfloat16: only the script can turn autocast on; record the script with autocast");
    return sentences;
}

} // namespace

Result<int> runChanges(const FitArguments& arguments, const Asked& asked, FitRecorder& recorder,
                       const std::stop_token& stop)
{
    const FitRequest& request = asked.request;
    if (request.batch.count() != 1 || request.sequence.count() != 1)
        return badInput("--changes is about a step of one size: expected a single batch, such as "
                        + std::string(asked.program.isScript ? "--vary --batch-size=8" : "--batch 8"));
    if (request.globalBatch > 0)
        return badInput("--changes is about a single micro-batch: leave out --global-batch");
    const StepSize size{request.batch.at(0), request.sequence.at(0), 1};
    ASSIGN_OR_RETURN(const std::vector<DeviceSpec> gpus, gpusOf(request));
    const std::string& gpu = gpus.front().name;
    std::vector<Result<RecordedStep>> recorded = recorder.record(std::span(&size, 1), gpu, stop);
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
    const FitProgram& program = asked.program;
    const StepSize half{size.batch / 2, size.sequence, 2};
    std::string obstacle = program.isScript ? obstacleToHalf(program, size, *step) : std::string();
    const RecordVariant variant = [&](const std::vector<std::string>& options) -> Result<StepTracePtr> {
        if (!program.isScript) {
            ASSIGN_OR_RETURN(const RecordedStep other, recorder.recordVariant(size, options, gpu, {}));
            return timed(other.step);
        }
        if (!obstacle.empty() || options.front() != "--batch")
            return badInput("the script's own code decides");
        std::vector<Result<RecordedStep>> other = recorder.record(std::span(&half, 1), gpu, stop);
        if (!other.front()) {
            obstacle = other.front().error().message;
            return other.front().error();
        }
        if (microBatchesOf(*other.front()->step) != 2 * microBatchesOf(*step)) {
            obstacle = program.accumulation.name + "=2 does not make two micro-batches of the script";
            return badInput(obstacle);
        }
        return timed(other.front()->step);
    };
    ASSIGN_OR_RETURN(Changes changes, changesThatHelp(step, card, variant));
    std::vector<std::string> untried;
    if (program.isScript) {
        untried = untriedOf(*step, obstacle);
        for (Change& change : changes.list) // of a script no option of `record` sets the sizes
            if (change.isRecorded)
                change.options = {program.batch.name + "=" + std::to_string(half.batch),
                                  program.accumulation.name + "=" + std::to_string(half.accumulation)};
    }
    recorder.finish();
    if (arguments.json) {
        Json document = toJson(changes);
        document["not_tried"] = untried;
        printJson(document);
    } else {
        print(changes, card, untried);
    }
    return 0;
}

} // namespace headroom::cli
