// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/plot/module_grouping.h"

#include "core/predict/predict.h"
#include "core/timeline/pyramid.h"
#include "tests/core/synthetic_step.h"
#include "views/plot/timeline_draw_list.h"

#include <gmock/gmock.h>

#include <numeric>

namespace headroom {
namespace {

StepTracePtr stepOf(int blocks)
{
    SyntheticOptions options;
    options.blocks = blocks;
    return makeSyntheticStep(options);
}

TimelinePtr predicted(const StepTrace& trace, const CheckpointPlan& plan)
{
    auto timeline = predict(trace, plan);
    EXPECT_TRUE(timeline.ok());
    return std::make_shared<const Timeline>(*std::move(timeline));
}

ModuleId moduleNamed(const StepTrace& trace, std::string_view fqn)
{
    for (std::uint32_t i = 0; i < trace.modules.size(); ++i) {
        if (trace.moduleFqn(ModuleId(i)) == fqn)
            return ModuleId(i);
    }
    return {};
}

CheckpointPlan everyOtherBlock(const StepTrace& trace, int blocks)
{
    CheckpointPlan plan;
    for (int i = 0; i < blocks; i += 2)
        plan.push_back({moduleNamed(trace, "Transformer.layers." + std::to_string(i)), {}});
    return plan;
}

TEST(ModuleGrouping, FewBlocksAreAGroupEach)
{
    const auto trace = stepOf(4);
    const auto grouping = ModuleGrouping::of(*trace, *predicted(*trace, {}));
    EXPECT_EQ(grouping->titles[0], "Optimizer state");
    EXPECT_EQ(grouping->titles[1], "Other modules");
    EXPECT_THAT(grouping->titles, testing::IsSupersetOf({"layers.0", "layers.1", "layers.2", "layers.3"}));
    const auto first = std::find(grouping->titles.begin(), grouping->titles.end(), "layers.0");
    EXPECT_THAT(std::vector<std::string>(first, first + 4),
                testing::ElementsAre("layers.0", "layers.1", "layers.2", "layers.3"))
        << "in the order of the model";
}

TEST(ModuleGrouping, ManyBlocksAreRunsThatCoverAll)
{
    const auto trace = stepOf(20);
    const auto grouping = ModuleGrouping::of(*trace, *predicted(*trace, {}));
    std::vector<std::string> runs;
    std::copy_if(grouping->titles.begin(), grouping->titles.end(), std::back_inserter(runs),
                 [](const std::string& title) { return title.starts_with("layers."); });
    ASSERT_EQ(runs.size(), ModuleGrouping::mostRuns);
    EXPECT_EQ(runs.front(), "layers.0–1");
    EXPECT_EQ(runs.back(), "layers.17–19");
    EXPECT_LE(grouping->titles.size(), ModuleGrouping::mostRuns + 6);
}

TEST(ModuleGrouping, WeightsBelongToTheirModule)
{
    const auto trace = stepOf(4);
    const auto grouping = ModuleGrouping::of(*trace, *predicted(*trace, {}));
    int checked = 0;
    for (std::size_t i = 0; i < trace->registered.size(); ++i) {
        const auto fqn = trace->moduleFqn(trace->registered.module[i]);
        if (!fqn.starts_with("Transformer.layers.2.") || !trace->registered.storage[i].valid())
            continue;
        const auto group = grouping->groupOf(trace->registered.storage[i], Category::parameter);
        EXPECT_EQ(grouping->titles[group], "layers.2") << fqn;
        EXPECT_EQ(grouping->groupOf(trace->registered.storage[i], Category::optimizer), ModuleGrouping::optimizerGroup);
        ++checked;
    }
    EXPECT_GT(checked, 3);
    EXPECT_EQ(grouping->groupOf(StorageId(), Category::activation), ModuleGrouping::otherGroup);
}

TEST(GroupedTimeline, AddsUpToTheTotalAtEveryInstantOfStepAndPlan)
{
    SyntheticOptions options;
    options.blocks = 12;
    options.elementwise = 40; // more changes than one interval of sums
    const auto trace = makeSyntheticStep(options);
    const auto recorded = predicted(*trace, {});
    const auto grouping = ModuleGrouping::of(*trace, *recorded);
    for (const auto& timeline : {recorded, predicted(*trace, everyOtherBlock(*trace, 12))}) {
        const GroupedTimeline grouped(*trace, timeline, grouping);
        const TimelinePyramid pyramid(timeline);
        ASSERT_GT(timeline->changes.size(), 2048u);
        std::vector<Bytes> parts(grouping->size());
        for (std::size_t count = 0; count <= timeline->changes.size(); count += 7) {
            grouped.bytesAt(count, parts);
            ASSERT_EQ(std::accumulate(parts.begin(), parts.end(), Bytes{0}), total(pyramid.bytesAt(count))) << count;
            ASSERT_GE(*std::min_element(parts.begin(), parts.end()), 0) << count;
        }
    }
}

TEST(GroupedTimeline, ForwardFillsTheBlocksInTheirOrder)
{
    const auto trace = stepOf(4);
    const auto recorded = predicted(*trace, {});
    const auto scene = makeScene(recorded, nullptr, trace.get());
    const auto list = prepareDrawList(scene, {{0, recorded->durationMs}, 400});
    // The column in which a band first holds half of its most.
    std::vector<std::size_t> filled;
    for (std::size_t band = 0; band < list->bands.size(); ++band) {
        if (!list->bands[band].title.startsWith(QStringLiteral("layers.")))
            continue;
        Bytes most = 0;
        for (std::size_t i = 0; i < list->main.size(); ++i)
            most = std::max(most, list->main.at(i)[band]);
        std::size_t column = 0;
        while (list->main.at(column)[band] * 2 < most)
            ++column;
        filled.push_back(column);
    }
    ASSERT_EQ(filled.size(), 4u);
    EXPECT_TRUE(std::is_sorted(filled.begin(), filled.end()));
    EXPECT_LT(filled.front(), filled.back());
    for (std::size_t i = 0; i < list->main.size(); ++i) {
        const auto parts = list->main.at(i);
        ASSERT_EQ(std::accumulate(parts.begin(), parts.end(), Bytes{0}), list->main.totals[i]);
    }
}

} // namespace
} // namespace headroom
