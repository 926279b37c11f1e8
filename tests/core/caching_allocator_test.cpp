// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/allocator/caching_allocator.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace headroom {
namespace {

struct Request
{
    Bytes requested;
    Bytes allocated;
    Bytes reserved;
};

class FirstRequest : public testing::TestWithParam<Request>
{
};

// One request on an empty allocator: what it rounds to, and the segment it takes.
TEST_P(FirstRequest, RoundsAndTakesASegment)
{
    CachingAllocator allocator;
    ASSERT_TRUE(allocator.allocate(GetParam().requested).has_value());
    EXPECT_EQ(allocator.stats().requested, GetParam().requested);
    EXPECT_EQ(allocator.stats().allocated, GetParam().allocated);
    EXPECT_EQ(allocator.stats().reserved, GetParam().reserved);
}

INSTANTIATE_TEST_SUITE_P(Boundaries, FirstRequest,
                         testing::Values(Request{1, 512, 2 * MiB}, Request{512, 512, 2 * MiB},
                                         Request{513, 1024, 2 * MiB}, Request{MiB, MiB, 2 * MiB},
                                         Request{MiB + 1, MiB + 512, 20 * MiB},
                                         Request{10 * MiB - 512, 10 * MiB - 512, 20 * MiB},
                                         // From 10 MiB on: a segment of its own, to a multiple of 2 MiB. Slack up to
                                         // 1 MiB stays inside the block.
                                         Request{10 * MiB, 10 * MiB, 10 * MiB}, Request{11 * MiB, 12 * MiB, 12 * MiB},
                                         Request{11 * MiB - 512, 11 * MiB - 512, 12 * MiB}));

TEST(CachingAllocator, TakesTheSmallestFreeBlockThatFits)
{
    CachingAllocator allocator;
    const auto large = allocator.allocate(40 * MiB);
    const auto medium = allocator.allocate(30 * MiB);
    allocator.free(*large);
    allocator.free(*medium);
    EXPECT_EQ(allocator.allocate(24 * MiB), medium) << "the 30 MiB block fits better than the 40 MiB one";
    EXPECT_EQ(allocator.stats().reserved, 70 * MiB) << "nothing new was taken from the device";
}

TEST(CachingAllocator, EqualBlocksGoLowestAddressFirst)
{
    CachingAllocator allocator;
    const auto first = allocator.allocate(16 * MiB);
    const auto second = allocator.allocate(16 * MiB);
    allocator.free(*second);
    allocator.free(*first);
    EXPECT_EQ(allocator.allocate(16 * MiB), first);
}

TEST(CachingAllocator, SplitsAndMergesInsideASegment)
{
    CachingAllocator allocator;
    const auto a = allocator.allocate(4 * MiB); // 20 MiB segment
    const auto b = allocator.allocate(4 * MiB);
    const auto c = allocator.allocate(4 * MiB);
    EXPECT_EQ(allocator.stats().reserved, 20 * MiB);
    EXPECT_EQ(*b - *a, static_cast<CachingAllocator::Block>(4 * MiB));
    allocator.free(*a);
    allocator.free(*c);
    allocator.free(*b); // merges with both neighbours and the rest of the segment
    EXPECT_EQ(allocator.allocate(9 * MiB), a) << "the merged segment serves a larger request from its start";
    EXPECT_EQ(allocator.stats().reserved, 20 * MiB);
}

TEST(CachingAllocator, FragmentationTakesANewSegment)
{
    CachingAllocator allocator;
    std::vector<CachingAllocator::Block> blocks;
    for (int i = 0; i < 5; ++i)
        blocks.push_back(*allocator.allocate(4 * MiB));
    allocator.free(blocks[0]);
    allocator.free(blocks[2]);
    EXPECT_EQ(allocator.stats().allocated, 12 * MiB);
    ASSERT_TRUE(allocator.allocate(6 * MiB).has_value());
    EXPECT_EQ(allocator.stats().reserved, 40 * MiB) << "8 MiB are free in the segment, but not in one piece";
}

TEST(CachingAllocator, SmallAndLargePoolsShareNothing)
{
    CachingAllocator allocator;
    allocator.free(*allocator.allocate(12 * MiB));
    ASSERT_TRUE(allocator.allocate(512).has_value());
    EXPECT_EQ(allocator.stats().reserved, 14 * MiB);
}

TEST(CachingAllocator, AFullDeviceGivesUnusedSegmentsBackBeforeItFails)
{
    AllocatorRules rules;
    rules.capacity = 64 * MiB;
    CachingAllocator allocator(rules);
    const auto first = allocator.allocate(40 * MiB);
    allocator.free(*first);
    const auto second = allocator.allocate(50 * MiB);
    ASSERT_TRUE(second.has_value()) << "the cached 40 MiB segment makes room";
    EXPECT_EQ(allocator.stats().reserved, 50 * MiB);
    EXPECT_EQ(allocator.stats().segments, 1);
    EXPECT_FALSE(allocator.allocate(16 * MiB).has_value()) << "66 MiB do not fit into 64";
    EXPECT_EQ(allocator.stats().reserved, 50 * MiB) << "a failed request changes nothing";
}

TEST(CachingAllocator, EverythingFreedIsOneFreeBlockPerSegment)
{
    CachingAllocator allocator;
    std::mt19937 random(7);
    std::vector<CachingAllocator::Block> live;
    for (int i = 0; i < 20'000; ++i) {
        if (live.empty() || random() % 5 < 3) {
            live.push_back(
                *allocator.allocate(1 + static_cast<Bytes>(random() % (random() % 8 ? 100'000 : 30'000'000))));
        } else {
            std::swap(live[random() % live.size()], live.back());
            allocator.free(live.back());
            live.pop_back();
        }
        ASSERT_LE(allocator.stats().allocated, allocator.stats().reserved);
        ASSERT_LE(allocator.stats().requested, allocator.stats().allocated);
    }
    for (const auto block : live)
        allocator.free(block);
    EXPECT_EQ(allocator.stats().allocated, 0);
    EXPECT_EQ(allocator.stats().requested, 0);
    // With every segment unused, a device that is exactly full must be able to give all of it back.
    EXPECT_GT(allocator.stats().reserved, 0);
    EXPECT_GE(allocator.stats().reservedPeak, allocator.stats().allocatedPeak);
}

} // namespace
} // namespace headroom
