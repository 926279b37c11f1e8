// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/record/outside_memory.h"

#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace headroom {
namespace {

using enum OutsideKind;
using testing::ElementsAre;
using testing::IsEmpty;

TEST(OutsideMemory, AKeptStepIsLeftOutAndItsBlocksAreOlderThanTheNextPeriod)
{
    OutsideMemory memory;
    memory.taken(1, 8 * MiB, 0);
    memory.stepBegins();
    memory.taken(2, 4 * MiB, 0);
    memory.returned(1, 8 * MiB, 0);
    memory.keepStep();
    memory.returned(2, 4 * MiB, 0); // by the recorder, which lets go of the step
    memory.stepEnds();
    EXPECT_THAT(memory.beforeTraining().kind, ElementsAre(alloc));
    EXPECT_EQ(memory.mostNotKept(), 0);
    EXPECT_THAT(memory.remarks(), IsEmpty());

    memory.taken(3, 2 * MiB, 0);
    memory.returned(3, 2 * MiB, 0);
    memory.returned(1, 8 * MiB, 0); // of a period that is over
    memory.stepBegins();
    memory.keepStep();
    memory.stepEnds();
    EXPECT_THAT(memory.betweenSteps().kind, ElementsAre(alloc, free, freeOlder));
    EXPECT_THAT(memory.betweenSteps().block, ElementsAre(0, 0, 0));
}

/// Parameters of 8 MiB; a step that is not kept takes and frees 4 MiB under no_grad and `own` bytes outside, and leaves
/// a block of 1 MiB; then comes a kept step.
void playBeforeTraining(OutsideMemory& memory, Bytes own, bool isFull)
{
    memory.taken(1, 8 * MiB, 0);
    memory.stepBegins();
    {
        const at::NoGradGuard evaluates;
        memory.taken(2, 4 * MiB, 0);
        memory.returned(2, 4 * MiB, 0);
    }
    memory.taken(3, own, 0);
    memory.taken(4, MiB, 0);
    if (isFull)
        memory.refused();
    memory.returned(3, own, 0);
    memory.stepEnds();
    memory.stepBegins();
    memory.taken(5, 16 * MiB, 0); // as optimizer state
    memory.keepStep();
    memory.stepEnds();
}

TEST(OutsideMemory, AStepThatIsNotKeptCountsIfItTakesNoMoreThanTrainingKeeps)
{
    OutsideMemory memory;
    playBeforeTraining(memory, 2 * MiB, false);
    EXPECT_THAT(memory.beforeTraining().kind, ElementsAre(alloc, alloc, free, alloc, alloc, free));
    EXPECT_THAT(memory.beforeTraining().block, ElementsAre(0, 0, 1, 0, 0, 3));
    EXPECT_EQ(memory.mostNotKept(), 3 * MiB);
    EXPECT_THAT(memory.remarks(), IsEmpty());
}

TEST(OutsideMemory, OfALargerOneOnlyWhatStaysAndWhatNoPlanChanges)
{
    OutsideMemory memory;
    playBeforeTraining(memory, 64 * MiB, false);
    EXPECT_THAT(memory.beforeTraining().kind, ElementsAre(alloc, alloc, free, alloc));
    EXPECT_THAT(memory.beforeTraining().bytes, ElementsAre(8 * MiB, 4 * MiB, 4 * MiB, MiB));
    EXPECT_THAT(memory.remarks(), ElementsAre(testing::HasSubstr("forward passes that are no training step")));
}

TEST(OutsideMemory, OfOneThatRanOutOfMemoryOnlyWhatStays)
{
    OutsideMemory memory;
    playBeforeTraining(memory, 64 * MiB, true);
    EXPECT_THAT(memory.beforeTraining().bytes, ElementsAre(8 * MiB, MiB));
    EXPECT_EQ(memory.mostNotKept(), 0);
    EXPECT_THAT(memory.remarks(), IsEmpty());
}

} // namespace
} // namespace headroom
