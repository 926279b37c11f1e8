// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/fit/fit.h"

#include "core/fit/fit_report.h"
#include "core/fit/learned_step.h"
#include "core/trace/step_file.h"
#include "tests/core/synthetic_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <functional>
#include <set>

namespace headroom {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* gpu = "rtx-4060-8gb";

/// The step of a program whose activations grow with the batch.
StepTracePtr stepOf(const StepSize& size, int blocks = 8)
{
    SyntheticOptions options;
    options.blocks = blocks;
    options.activation = size.batch * MiB + 300;
    options.weight = 8 * MiB;
    options.microBatches = static_cast<int>(size.accumulation);
    auto step = std::make_shared<StepTrace>(*makeSyntheticStep(options));
    step->info.gpu = gpu;
    step->info.batch = size.batch;
    return step;
}

/// A program under the search: it notes what is recorded.
struct Program
{
    std::vector<std::int64_t> recorded;
    std::function<Result<StepTracePtr>(const StepSize&)> step = [](const StepSize& size) { return stepOf(size); };

    Result<FitResult> fit(const FitRequest& request, const FitWatch& watch = {}, const std::stop_token& stop = {})
    {
        const RecordSteps record = [&](std::span<const StepSize> sizes, const std::string&, const std::stop_token&) {
            std::vector<Result<RecordedStep>> results;
            for (const StepSize& size : sizes) {
                recorded.push_back(size.batch);
                const Result<StepTracePtr> made = step(size);
                results.push_back(made ? Result<RecordedStep>(RecordedStep{*made, {}}) : made.error());
            }
            return results;
        };
        return headroom::fit(request, record, watch, stop);
    }
    FitSeries series(const FitRequest& request)
    {
        const Result<FitResult> result = fit(request);
        EXPECT_TRUE(result) << result.error().message;
        return result ? result->series.front() : FitSeries();
    }
};

FitRequest requestOf(Sizes batch)
{
    FitRequest request;
    request.gpus = {gpu};
    request.batch = std::move(batch);
    request.times.calibration = "none";
    return request;
}

std::int64_t batchAt(const FitSeries& series, const std::optional<std::size_t>& index)
{
    return index ? series.rows.at(*index).size.batch : 0;
}

TEST(Sizes, ListsAndRanges)
{
    const auto all = [](const Sizes& sizes) {
        std::vector<std::int64_t> list;
        for (std::size_t i = 0; i < sizes.count(); ++i)
            list.push_back(sizes.at(i));
        return list;
    };
    EXPECT_THAT(all(*Sizes::parse("8")), ElementsAre(8));
    EXPECT_THAT(all(*Sizes::parse("4,1,2,4")), ElementsAre(1, 2, 4));
    EXPECT_THAT(all(*Sizes::parse("64..256:64")), ElementsAre(64, 128, 192, 256));
    EXPECT_THAT(all(*Sizes::parse("3..8", 2)), ElementsAre(3, 5, 7));
    EXPECT_GT(Sizes::parse("1..")->count(), 1'000'000U);
    EXPECT_TRUE(Sizes().isOwn());
    const Sizes odd = Sizes::range(3, 99, 4);
    EXPECT_EQ(Sizes::range(1, 100, 1).at(Sizes::range(1, 100, 1).roundest(40, 70)), 64);
    EXPECT_EQ(odd.at(odd.roundest(3, 9)), odd.at(9)) << "no size is even";
    for (const char* wrong : {"", "0", "-1", "a", "1,", "1..0", "..3", "1..2:0", "1.5", "9999999999999999999"})
        EXPECT_THAT(Sizes::parse(wrong).error().message, HasSubstr("expected sizes, such as")) << wrong;
}

TEST(LearnedStep, IsTheRecordingOfItsSize)
{
    const std::vector<SizedStep> known{{2, stepOf({.batch = 2})}, {5, stepOf({.batch = 5})}};
    for (const std::int64_t size : {1, 2, 3, 40}) {
        const Result<StepTracePtr> step = stepAtSize(known, size);
        ASSERT_TRUE(step) << step.error().message;
        const StepTracePtr recorded = stepOf({.batch = size});
        EXPECT_THAT((*step)->storages.bytes.rows, testing::ElementsAreArray(recorded->storages.bytes.rows)) << size;
        EXPECT_THAT((*step)->ops.flops.rows, testing::ElementsAreArray(recorded->ops.flops.rows)) << size;
        EXPECT_EQ((*step)->info.batch, size);
        EXPECT_TRUE(validate(**step)) << size;
    }
}

TEST(LearnedStep, OtherStructuresAreRefused)
{
    const std::vector<SizedStep> known{{2, stepOf({.batch = 2})}, {5, stepOf({.batch = 5}, 9)}};
    EXPECT_THAT(stepAtSize(known, 3).error().message, testing::ContainsRegex("[0-9]+ ops and [0-9]+"));
    EXPECT_TRUE(sameStructure(*known[0].step, *known[0].step));
    EXPECT_FALSE(sameSizes(*known[0].step, *stepOf({.batch = 3})));
}

TEST(LearnedStep, NamesOfGeneratedFilesMayDiffer)
{
    const auto compiled = [](const char* file) {
        auto step = std::make_shared<StepTrace>(*stepOf({.batch = 2}));
        auto texts = std::make_shared<std::pair<std::vector<std::uint32_t>, std::string>>();
        texts->first.assign(step->strings.first.begin(), step->strings.first.end());
        texts->second.assign(step->strings.text.begin(), step->strings.text.end());
        texts->second += file;
        texts->first.push_back(static_cast<std::uint32_t>(texts->second.size()));
        step->strings.first = texts->first;
        step->strings.text = texts->second;
        return std::pair(step, texts);
    };
    const auto one = compiled("/cache/wf/cwfqrtowir4cnexpmizzvvjnh4q7syunnwhupjhhtzmfjalq3gtx.py");
    const auto other = compiled("/cache/5o/c5ofyp2za4fprvmivb5nu6p7a4wj333lqjgsgxi5ezyo6y5aqxvd.py");
    const auto script = compiled("/home/scripts/of/a/user/with/a/long/name/train-the-model-abcdefghi.py");
    EXPECT_TRUE(sameStructure(*one.first, *other.first));
    EXPECT_FALSE(sameStructure(*one.first, *script.first));
}

TEST(Fit, TheLargestSizesAreThoseOfATrialOfEach)
{
    Program program;
    const FitSeries found = program.series(requestOf(Sizes::range(1, 0, 1)));
    ASSERT_TRUE(found.largest && found.largestPlain && found.fastest);
    EXPECT_LT(program.recorded.size(), 10U) << "few recordings";
    EXPECT_TRUE(found.isBounded);
    EXPECT_THAT(found.remarks, IsEmpty());
    const std::int64_t plain = batchAt(found, found.largestPlain);
    const std::int64_t largest = batchAt(found, found.largest);
    EXPECT_GT(largest, plain);
    EXPECT_TRUE(found.rows.at(*found.largest).isRecorded);
    EXPECT_TRUE(found.rows.at(*found.fastest).isRecorded);
    // Each size by itself, as a list.
    Program trial;
    const FitSeries each = trial.series(requestOf(Sizes::list({plain, plain + 1, largest, largest + 1})));
    const auto& rows = each.rows;
    EXPECT_TRUE(rows[0].plain.runs());
    EXPECT_FALSE(rows[1].plain.runs());
    const std::size_t last = rows.size() - 1;
    EXPECT_TRUE(rows[last - 1].runs());
    EXPECT_FALSE(rows[last].runs());
    EXPECT_EQ(rows[0].plain.card.reservedPeak, found.rows.at(*found.largestPlain).plain.card.reservedPeak);
}

TEST(Fit, TheEdgeOfPlansIsFoundAtFewSizes)
{
    Program program;
    std::set<std::string> looked;
    const FitWatch watch = [&](const FitSeries&, const std::string& next) {
        if (next.starts_with("looking for the least memory of "))
            looked.insert(next);
    };
    const Result<FitResult> result = program.fit(requestOf(Sizes::range(1, 0, 1)), watch);
    ASSERT_TRUE(result) << result.error().message;
    const FitSeries& found = result->series.front();
    EXPECT_GT(batchAt(found, found.largest), 4 * batchAt(found, found.largestPlain)) << "halving would take long";
    EXPECT_GE(looked.size(), 2U);
    EXPECT_LE(looked.size(), 6U) << "what a plan leaves is about linear in the batch";
}

TEST(Fit, ARecordingThatSaysOtherwiseCounts)
{
    // From 100 on the program takes another buffer, which two small recordings do not show.
    Program program;
    program.step
        = [](const StepSize& size) { return stepOf({.batch = size.batch >= 100 ? size.batch + 40 : size.batch}); };
    const FitSeries found = program.series(requestOf(Sizes::range(1, 0, 1)));
    ASSERT_TRUE(found.largestPlain && found.largest);
    EXPECT_THAT(found.remarks, testing::Contains(HasSubstr("as calculated from other sizes")));
    for (const auto& index : {found.largestPlain, found.largest})
        EXPECT_TRUE(found.rows.at(*index).isRecorded);
    const std::int64_t plain = batchAt(found, found.largestPlain);
    Program trial;
    trial.step = program.step;
    const FitSeries each = trial.series(requestOf(Sizes::list({plain, plain + 1})));
    EXPECT_TRUE(each.rows[0].plain.runs());
    EXPECT_FALSE(each.rows[1].plain.runs());
}

TEST(Fit, SizesThatFailLeaveTheOthers)
{
    Program program;
    program.step = [](const StepSize& size) -> Result<StepTracePtr> {
        if (size.batch % 2 == 1 || size.batch > 64)
            return badInput("the batch is odd or too large");
        return stepOf(size);
    };
    const FitSeries found = program.series(requestOf(Sizes::list({1, 2, 3, 4})));
    ASSERT_EQ(found.rows.size(), 4U);
    EXPECT_EQ(found.rows[0].failure, "the batch is odd or too large");
    EXPECT_TRUE(found.rows[1].runs());
    EXPECT_EQ(batchAt(found, found.largest), 4);
}

TEST(Fit, AFailureAboveEndsTheRangeAndIsSaid)
{
    Program program;
    program.step = [](const StepSize& size) -> Result<StepTracePtr> {
        if (size.batch > 40)
            return badInput("the data set has 40 samples");
        return stepOf(size);
    };
    const FitSeries found = program.series(requestOf(Sizes::range(1, 0, 1)));
    EXPECT_EQ(batchAt(found, found.largest), 40);
    EXPECT_FALSE(found.isBounded);
    EXPECT_THAT(found.remarks, testing::Contains(HasSubstr("the program fails at --batch 41")));
    EXPECT_LT(program.recorded.size(), 16U) << "not one after the other";
}

TEST(Fit, AProgramThatTakesMultiplesAloneIsFollowed)
{
    const auto largest = [](bool takesAll) {
        Program program;
        program.step = [&](const StepSize& size) -> Result<StepTracePtr> {
            if (!takesAll && size.batch % 8 != 0)
                return badInput("expected a multiple of 8");
            return stepOf(size);
        };
        const FitSeries found = program.series(requestOf(Sizes::range(8, 0, 1)));
        return batchAt(found, found.largest);
    };
    EXPECT_EQ(largest(false), largest(true) / 8 * 8);
}

TEST(Fit, AStepWithLessThanItsSizeFails)
{
    Program program;
    program.step = [](const StepSize& size) { return stepOf({.batch = std::min<std::int64_t>(size.batch, 20)}); };
    for (const Sizes& sizes : {Sizes::list({8, 20, 32}), Sizes::range(1, 0, 1)}) {
        const FitSeries found = program.series(requestOf(sizes));
        EXPECT_EQ(batchAt(found, found.largest), 20);
        EXPECT_THAT(found.rows.back().failure, HasSubstr("the recorded step has a batch of 20 and not of "));
    }
    // A program that joins all samples has a batch of 1.
    program.step = [](const StepSize& size) -> StepTracePtr {
        auto step = std::make_shared<StepTrace>(*stepOf(size));
        step->info.batch = 1;
        return step;
    };
    EXPECT_EQ(program.series(requestOf(Sizes::list({1, 8}))).largest, 1U);
}

TEST(Fit, ASizeOfAllMicroBatchesCountsOnce)
{
    Program program;
    program.step = [](const StepSize& size) -> StepTracePtr {
        auto step = std::make_shared<StepTrace>(*stepOf({.batch = size.batch / 2, .accumulation = 2}));
        step->info.batch = size.batch / 2;
        return step;
    };
    const FitRun run = program.series(requestOf(Sizes::list({8, 16}))).rows.back().plain;
    EXPECT_NEAR(run.samplesPerSecond, 16e3 / run.stepMs, 1e-6);
}

TEST(Fit, AProgramThatIgnoresTheSizeIsNamed)
{
    Program program;
    program.step = [](const StepSize&) { return stepOf({.batch = 4}); };
    const FitSeries found = program.series(requestOf(Sizes::range(1, 0, 1)));
    EXPECT_EQ(program.recorded.size(), 2U);
    EXPECT_THAT(found.remarks, ElementsAre(HasSubstr("the program does not use --batch")));
    EXPECT_FALSE(found.fastest) << "the samples of a step are not known";
    EXPECT_EQ(found.rows.front().plain.samplesPerSecond, 0);
    EXPECT_THAT(program.series(requestOf(Sizes::list({3, 6}))).remarks,
                ElementsAre(HasSubstr("the program does not use --batch")));
}

TEST(Fit, StepsOfOtherStructureAreRecordedEach)
{
    Program program;
    program.step
        = [](const StepSize& size) { return stepOf(size, static_cast<int>(std::min<std::int64_t>(size.batch, 24))); };
    const FitSeries found = program.series(requestOf(Sizes::range(1, 16, 1)));
    EXPECT_THAT(found.remarks, testing::Contains(HasSubstr("steps are recorded and not calculated")));
    for (const FitRow& row : found.rows)
        EXPECT_TRUE(row.isRecorded) << row.size.batch;
    EXPECT_EQ(batchAt(found, found.largest), 16);
}

TEST(Fit, AGlobalBatchIsAccumulated)
{
    Program program;
    FitRequest request = requestOf(Sizes::range(1, 0, 1));
    request.globalBatch = 48;
    const FitSeries found = program.series(request);
    ASSERT_EQ(found.rows.size(), 10U) << "the divisors of 48";
    for (const FitRow& row : found.rows)
        EXPECT_EQ(row.size.batch * row.size.accumulation, 48);
    // Sixteen micro-batches take the memory of two, and eight times as long but for the optimizer.
    const FitRow& three = found.rows[2];
    ASSERT_EQ(three.size.batch, 3);
    const FitRow two = program.series(requestOf(Sizes::list({3}))).rows[0];
    EXPECT_GT(three.plain.peak, two.plain.peak) << "gradients of the first micro-batch are kept";
    EXPECT_GT(three.plain.stepMs, 15 * two.plain.stepMs * 0.5);
    request.batch = Sizes::list({5, 7});
    EXPECT_THAT(program.fit(request).error().message, HasSubstr("no batch divides the global batch 48"));
}

TEST(Fit, AnotherProgramOnTheCardLeavesLess)
{
    Program program;
    const FitRequest whole = requestOf(Sizes::range(1, 0, 1));
    FitRequest beside = whole, share = whole;
    beside.beside = 2 * GiB;
    share.share = 0.5;
    const auto largest = [&](const FitRequest& request) {
        const FitSeries found = program.series(request);
        return batchAt(found, found.largestPlain);
    };
    EXPECT_LT(largest(beside), largest(whole));
    EXPECT_LT(largest(share), largest(beside));
    beside.beside = 100 * GiB;
    program.recorded.clear();
    EXPECT_THAT(program.fit(beside).error().message, HasSubstr("nothing is left of"));
    EXPECT_THAT(program.recorded, IsEmpty());
}

TEST(Fit, CardsThatRunTheSameOpsShareRecordings)
{
    Program program;
    FitRequest request = requestOf(Sizes::list({2, 4}));
    request.gpus = {gpu, "rtx-4090-24gb"};
    const Result<FitResult> result = program.fit(request);
    ASSERT_TRUE(result);
    EXPECT_EQ(program.recorded.size(), 2U);
    ASSERT_EQ(result->series.size(), 2U);
    EXPECT_GT(result->series[1].rows[0].plain.card.left, result->series[0].rows[0].plain.card.left);
    EXPECT_EQ(result->series[1].rows[0].plain.peak, result->series[0].rows[0].plain.peak);
}

TEST(Fit, AStopKeepsTheRowsSoFar)
{
    Program program;
    std::stop_source stop;
    const FitWatch watch = [&](const FitSeries& series, const std::string&) {
        if (series.rows.size() == 2)
            stop.request_stop();
    };
    const Result<FitResult> result = program.fit(requestOf(Sizes::range(1, 0, 1)), watch, stop.get_token());
    ASSERT_TRUE(result);
    ASSERT_EQ(result->series.size(), 1U);
    EXPECT_GE(result->series[0].rows.size(), 2U);
    EXPECT_FALSE(result->series[0].isBounded);
}

TEST(Fit, WrongRequestsAreSentences)
{
    Program program;
    FitRequest request = requestOf(Sizes::range(1, 0, 1));
    request.gpus = {};
    EXPECT_THAT(program.fit(request).error().message, HasSubstr("the card is missing"));
    request.gpus = {"no-card"};
    EXPECT_THAT(program.fit(request).error().message, HasSubstr("no-card"));
    request.gpus = {gpu};
    request.settings = "no_setting:1";
    EXPECT_THAT(program.fit(request).error().message, HasSubstr("'no_setting' at character 1"));
    request.settings.reset();
    request.sequence = Sizes::range(64, 0, 64);
    EXPECT_THAT(program.fit(request).error().message, HasSubstr("both ranges"));
    EXPECT_THAT(program.recorded, IsEmpty());
}

TEST(Fit, TablesSayWhatIsRecordedAndWhatIsCalculated)
{
    Program program;
    const Result<FitResult> result = program.fit(requestOf(Sizes::range(1, 0, 1)));
    const nlohmann::ordered_json json = toJson(*result);
    std::set<std::string> sources;
    for (const auto& row : json["series"][0]["rows"])
        sources.insert(row["source"].get<std::string>());
    EXPECT_THAT(sources, ElementsAre("calculated", "recorded"));
    const std::string csv = toCsv(*result);
    EXPECT_THAT(csv, HasSubstr("gpu,batch,sequence,accumulation,source,fits,"));
    EXPECT_EQ(static_cast<std::size_t>(std::ranges::count(csv, '\n')), result->series[0].rows.size() + 1);
    EXPECT_THAT(findings(result->series[0], requestOf({})),
                ElementsAre(HasSubstr("largest: --batch "), HasSubstr(" does not run: "),
                            HasSubstr("largest without a plan: "), HasSubstr("fastest: ")));
}

} // namespace
} // namespace headroom
