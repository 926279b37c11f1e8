// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/core/synthetic_step.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

using namespace headroom;

TEST(SyntheticStep, HasTheModulesItPromises)
{
    SyntheticOptions options;
    options.blocks = 2;
    const StepTracePtr step = makeSyntheticStep(options);
    ASSERT_EQ(step->modules.size(), 4U + 2U * 9U);
    EXPECT_EQ(step->moduleFqn(ModuleId(0)), "Transformer");
    EXPECT_EQ(step->moduleFqn(ModuleId(7)), "Transformer.layers.0.attention.wo");
    EXPECT_EQ(step->calls.size(), 3U + 2U * 9U);
}

TEST(SyntheticStep, HasAboutTheEventsAskedFor)
{
    for (const std::size_t events : {30000U, 1000000U}) {
        const StepTracePtr step = makeSyntheticStep(syntheticOptions(events));
        EXPECT_NEAR(static_cast<double>(step->events.size()), static_cast<double>(events),
                    0.05 * static_cast<double>(events));
    }
}

TEST(SyntheticStep, EndsWithWhatItBeganWith)
{
    for (const SyntheticOptions& options :
         {SyntheticOptions{}, SyntheticOptions{.adapter = 64 * KiB, .microBatches = 3}}) {
        const StepTracePtr step = makeSyntheticStep(options);
        std::vector<int> holders(step->storages.size());
        std::size_t existing = 0;
        for (std::size_t i = 0; i < step->events.size(); ++i) {
            const EventIndex event(static_cast<std::uint32_t>(i));
            const std::uint32_t a = step->events.a[event];
            switch (step->events.kind[event]) {
            case EventKind::alloc:
                ++holders[a];
                break;
            case EventKind::free:
                --holders[a];
                break;
            case EventKind::pack:
            case EventKind::unpack:
                ++holders[step->packs.storage[PackId(a)].value];
                break;
            case EventKind::release:
            case EventKind::unpackEnd:
                --holders[step->packs.storage[PackId(a)].value];
                break;
            case EventKind::mark:
                if (static_cast<Mark>(a) == Mark::stepBegin)
                    existing = static_cast<std::size_t>(std::ranges::count(holders, 1));
                break;
            default:
                break;
            }
        }
        for (std::size_t storage = 0; storage < holders.size(); ++storage)
            EXPECT_EQ(holders[storage], storage < existing ? 1 : 0) << "storage " << storage;
    }
}
