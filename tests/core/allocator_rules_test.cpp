// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
// clang-format off
//
// The rules of PyTorch's caching allocator, and the test of each:
//
// sizes of blocks: multiples of 512, divisions of powers of two   FirstRequest, RoundsUpToDivisions
// sizes of segments: 2 MiB, 20 MiB, multiples of 2 MiB            FirstRequest
// the smallest free block that fits, the lowest of equal ones     TakesTheSmallestFreeBlockThatFits, EqualBlocksGoLowest…
// only of the same stream, and of the same pool                   StreamsShareSegmentsOfNothing, SmallAndLargePoolsShare…
// cut where more than 1 MiB remains; small ones where 512 do      FirstRequest, SmallBlocksAreCutAtEveryBlock
// a freed block merges with its neighbours                        SplitsAndMergesInsideASegment
// one that another stream uses stays active until it is done      ABlockThatAnotherStreamUsesStaysActive
// max_split_size: oversize blocks are whole, for oversize requests MaxSplitSizeKeepsOversizeBlocksWhole
// a full device: oversize blocks go back, one by one               OversizeBlocksGoBackOneByOneBeforeEverythingDoes
// … then streams are waited for, and all unused segments go back  AFullDeviceWaitsForTheOtherStreams, AFullDeviceGives…
// … then memory has run out, with the reason                      AMemoryFractionIsALimit, AllocatorReplay.SaysWhere…
// garbage collection by age, above its share of a limit           GarbageCollectionFreesByAge, WithoutALimitNothingIs…
// pools of CUDA graphs                                             SegmentsOfGraphsStayWithThem
// expandable segments: pages are mapped for what is missing       ExpandableSegments.GrowByPagesAndTakeExactBlocks
// … in the hole at the lowest address                             ExpandableSegments.FillTheHoleAtTheLowestAddress
// … best fit counts what a block could grow to                    ExpandableSegments.PreferTheBlockThatCannotGrow
// … whole pages inside free blocks go back                        ExpandableSegments.WholePagesGoBackWhenTheDeviceIsFull
// all of them together, for another implementation's recordings   Files/EveryFile (snapshot_test)
//
// Not simulated: callbacks that free memory of Python objects, and pools that are used only when memory runs out.
// clang-format on
#include "core/allocator/caching_allocator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace headroom {
namespace {

using Block = CachingAllocator::Block;

AllocatorRules rulesOf(std::string_view settings, Bytes capacity = 0)
{
    AllocatorRules rules;
    rules.capacity = capacity;
    const Result<AllocatorRules> read = withAllocatorSettings(rules, settings);
    EXPECT_TRUE(read.ok()) << read.error().message;
    return read.ok() ? *read : rules;
}

Block take(CachingAllocator& allocator, Bytes bytes, CachingAllocator::Stream stream = 0)
{
    const auto block = allocator.allocate(bytes, stream);
    EXPECT_TRUE(block.has_value()) << bytes << " bytes";
    return block.value_or(0);
}

TEST(AllocatorSettings, ReadsWhatPyTorchReads)
{
    const AllocatorRules rules = rulesOf("max_split_size_mb:128, garbage_collection_threshold:0.8,"
                                         "expandable_segments:True,max_non_split_rounding_mb:32,"
                                         "per_process_memory_fraction:0.5,pinned_use_background_threads:True",
                                         8 * GiB);
    EXPECT_EQ(rules.maxSplit, 128 * MiB);
    EXPECT_EQ(rules.garbageCollection, 0.8);
    EXPECT_TRUE(rules.expandableSegments);
    EXPECT_EQ(rules.maxNonSplitRounding, 32 * MiB);
    EXPECT_EQ(rules.limit(), 4 * GiB);
    EXPECT_EQ(rulesOf(allocatorSettings(rules), 8 * GiB), rules) << allocatorSettings(rules);
    EXPECT_EQ(rulesOf(""), AllocatorRules());
    EXPECT_EQ(rulesOf("throw_on_cudamalloc_oom:True,pinned_max_round_threshold_mb:64,pinned_max_cached_size_mb:64"),
              AllocatorRules());
    EXPECT_EQ(allocatorSettings(AllocatorRules()), "");
    EXPECT_EQ(rulesOf("large_segment_size_mb:64").segmentSize(2 * MiB), 64 * MiB);
}

TEST(AllocatorSettings, DivisionsOfPowersOfTwo)
{
    // As torch 2.11: the first size counts for all smaller ones too, > for all larger ones.
    const AllocatorRules rules = rulesOf("roundup_power2_divisions:[256:1,512:2,1024:4,>:8]");
    std::vector<std::uint32_t> expected(16, 8);
    std::fill_n(expected.begin(), 9, 1);
    expected[9] = 2;
    expected[10] = 4;
    EXPECT_THAT(rules.powerOfTwoDivisions, testing::ElementsAreArray(expected));
    EXPECT_EQ(rulesOf(allocatorSettings(rules)), rules);
    EXPECT_THAT(rulesOf("roundup_power2_divisions:4").powerOfTwoDivisions, testing::Each(4U));
}

TEST(AllocatorSettings, RoundsUpToDivisions)
{
    const AllocatorRules rules = rulesOf("roundup_power2_divisions:4");
    // PyTorch's own example: 1200 with 4 divisions between 1024 and 2048 is 1280; but up to 2048 = 512 * 4 the
    // ordinary rounding holds.
    EXPECT_EQ(rules.roundSize(1200), 1536);
    EXPECT_EQ(rules.roundSize(2049), 2560);
    EXPECT_EQ(rules.roundSize(4 * MiB), 4 * MiB);
    EXPECT_EQ(rules.roundSize(4 * MiB + 1), 5 * MiB);
    EXPECT_EQ(rules.roundSize(5 * MiB + 1), 6 * MiB);
    EXPECT_EQ(rules.roundSize(7 * MiB + 1), 8 * MiB);
    EXPECT_EQ(AllocatorRules().roundSize(4 * MiB + 1), 4 * MiB + 512);
}

TEST(AllocatorSettings, ErrorsNameTheToken)
{
    const auto message = [](std::string_view settings) {
        const Result<AllocatorRules> read = withAllocatorSettings({}, settings);
        EXPECT_FALSE(read.ok()) << settings;
        return read.ok() ? std::string() : read.error().message;
    };
    using testing::HasSubstr;
    EXPECT_THAT(message("max_split_size:128"), HasSubstr("'max_split_size' at character 1: expected an option"));
    EXPECT_THAT(message("max_split_size_mb:19"),
                HasSubstr("'19' at character 19: expected a whole number of MiB of "
                          "at least 20"));
    EXPECT_THAT(message("large_segment_size_mb:64,max_split_size_mb:32"), HasSubstr("at least 64"));
    EXPECT_THAT(message("large_segment_size_mb:10"), HasSubstr("at least 11"));
    EXPECT_THAT(message("max_split_size_mb=64"), HasSubstr("'max_split_size_mb=64'"));
    EXPECT_THAT(message("expandable_segments:true"), HasSubstr("'true' at character 21: expected True or False"));
    EXPECT_THAT(message("garbage_collection_threshold:1.0"), HasSubstr("'1.0' at character 30"));
    EXPECT_THAT(message("roundup_power2_divisions:3"), HasSubstr("'3' at character 26: expected a power of two"));
    EXPECT_THAT(message("roundup_power2_divisions:[300:2]"), HasSubstr("'300' at character 27"));
    EXPECT_THAT(message("roundup_power2_divisions:[256:2"), HasSubstr("the settings end where ',' or ']'"));
    EXPECT_THAT(message("expandable_segments:True max_split_size_mb:64"), HasSubstr("expected True or False"))
        << "PyTorch joins what blanks part, too";
    EXPECT_THAT(message("backend:cudaMallocAsync"), HasSubstr("'cudaMallocAsync' at character 9"));
    EXPECT_THAT(message("expandable_segments"), HasSubstr("the settings end where ':'"));
}

TEST(AllocatorSettings, NothingInThemCrashes)
{
    std::mt19937 random(3);
    const std::vector<std::string> parts{"max_split_size_mb",
                                         "roundup_power2_divisions",
                                         "expandable_segments",
                                         ":",
                                         ",",
                                         "[",
                                         "]",
                                         ">",
                                         "256",
                                         "True",
                                         "0.5",
                                         "-1",
                                         "large_segment_size_mb",
                                         "99999999999999999999"};
    for (int i = 0; i < 20'000; ++i) {
        std::string text;
        for (unsigned n = random() % 12; n > 0; --n)
            text += parts[random() % parts.size()];
        const Result<AllocatorRules> read = withAllocatorSettings({}, text);
        if (read.ok()) {
            const Result<AllocatorRules> again = withAllocatorSettings({}, allocatorSettings(*read));
            ASSERT_TRUE(again.ok()) << text;
            EXPECT_EQ(*again, *read) << text;
        }
    }
}

TEST(AllocatorRules, SmallBlocksAreCutAtEveryBlock)
{
    CachingAllocator allocator;
    const Block first = take(allocator, MiB); // half of a segment of 2 MiB
    const Block second = take(allocator, MiB - 512); // the other half but its last 512 bytes
    EXPECT_EQ(second, first + static_cast<Block>(MiB));
    EXPECT_EQ(allocator.stats().allocated, 2 * MiB - 512);
    EXPECT_EQ(take(allocator, 1), second + static_cast<Block>(MiB - 512)) << "which are a block of their own";
    EXPECT_EQ(allocator.stats().reserved, 2 * MiB);
    EXPECT_EQ(allocator.stats().inactiveSplit, 0);
}

TEST(AllocatorRules, StreamsShareSegmentsOfNothing)
{
    CachingAllocator allocator;
    allocator.free(take(allocator, 16 * MiB, 1));
    take(allocator, 16 * MiB, 2);
    EXPECT_EQ(allocator.stats().reserved, 32 * MiB) << "a free block serves its own stream only";
    take(allocator, 16 * MiB, 1);
    EXPECT_EQ(allocator.stats().reserved, 32 * MiB);
}

TEST(AllocatorRules, ABlockThatAnotherStreamUsesStaysActive)
{
    CachingAllocator allocator;
    const Block block = take(allocator, 16 * MiB);
    allocator.requestFree(block);
    EXPECT_EQ(allocator.stats().allocated, 0);
    EXPECT_EQ(allocator.stats().active, 16 * MiB);
    EXPECT_NE(take(allocator, 16 * MiB), block) << "not reusable yet";
    allocator.free(block);
    EXPECT_EQ(allocator.stats().active, 16 * MiB) << "the second one";
    EXPECT_EQ(take(allocator, 16 * MiB), block);
}

TEST(AllocatorRules, AFullDeviceWaitsForTheOtherStreams)
{
    CachingAllocator allocator(rulesOf("", 40 * MiB));
    allocator.requestFree(take(allocator, 30 * MiB));
    take(allocator, 36 * MiB);
    EXPECT_EQ(allocator.stats().reserved, 36 * MiB) << "the freed block was completed, its segment given back";
    EXPECT_EQ(allocator.stats().retries, 1);
}

TEST(AllocatorRules, MaxSplitSizeKeepsOversizeBlocksWhole)
{
    CachingAllocator allocator(rulesOf("max_split_size_mb:32"));
    allocator.free(take(allocator, 64 * MiB));
    const Block small = take(allocator, 30 * MiB);
    EXPECT_EQ(allocator.stats().reserved, 94 * MiB) << "30 MiB are not cut from an oversize block";
    // 64 MiB are less than 44 + 20 too large: not taken; for 45 they are.
    const Block first = take(allocator, 44 * MiB);
    EXPECT_EQ(allocator.stats().reserved, 138 * MiB);
    const Block second = take(allocator, 45 * MiB);
    EXPECT_EQ(allocator.stats().reserved, 138 * MiB);
    EXPECT_EQ(allocator.stats().allocated, (30 + 44 + 64) * MiB) << "the oversize block is not split";
    allocator.free(small);
    allocator.free(first);
    allocator.free(second);
}

TEST(AllocatorRules, OversizeBlocksGoBackOneByOneBeforeEverythingDoes)
{
    CachingAllocator allocator(rulesOf("max_split_size_mb:32", 200 * MiB));
    const Block a = take(allocator, 40 * MiB);
    const Block b = take(allocator, 60 * MiB);
    const Block c = take(allocator, 30 * MiB);
    allocator.free(a);
    allocator.free(b);
    allocator.free(c);
    take(allocator, 96 * MiB); // 130 reserved and 96 wanted: 226
    EXPECT_EQ(allocator.stats().reserved, (30 + 96) * MiB) << "60 and 40 MiB went back, 30 MiB are no oversize block";
    EXPECT_EQ(allocator.stats().retries, 0);
    EXPECT_EQ(allocator.largestFree(), 30 * MiB);
}

TEST(AllocatorRules, GarbageCollectionFreesByAge)
{
    AllocatorRules rules = rulesOf("garbage_collection_threshold:0.5,per_process_memory_fraction:1.0", 100 * MiB);
    CachingAllocator allocator(rules);
    const Block a = take(allocator, 20 * MiB);
    const Block b = take(allocator, 30 * MiB);
    allocator.free(a); // older
    take(allocator, 12 * MiB); // from a: 20 is split
    allocator.free(b);
    const Block c = take(allocator, 10 * MiB);
    allocator.free(c);
    // Reserved 50: not above the threshold of 50. A request that finds nothing takes 32 more.
    const Block d = take(allocator, 32 * MiB);
    EXPECT_EQ(allocator.stats().reserved, 82 * MiB);
    allocator.free(d);
    // Reserved 82 > 50: what was not used for longest goes back, here b of 30 MiB (older than d), and that is 30 < 32
    // that were wanted back, so d goes too.
    take(allocator, 40 * MiB);
    EXPECT_EQ(allocator.stats().reserved, (20 + 40) * MiB);
    EXPECT_EQ(allocator.stats().retries, 0);
}

TEST(AllocatorRules, WithoutALimitNothingIsCollected)
{
    CachingAllocator allocator(rulesOf("garbage_collection_threshold:0.5", 100 * MiB));
    allocator.free(take(allocator, 30 * MiB));
    allocator.free(take(allocator, 40 * MiB));
    take(allocator, 21 * MiB);
    EXPECT_EQ(allocator.stats().reserved, 70 * MiB);
    take(allocator, 30 * MiB);
    EXPECT_EQ(allocator.stats().reserved, 70 * MiB);
}

TEST(AllocatorRules, AMemoryFractionIsALimit)
{
    CachingAllocator allocator(rulesOf("per_process_memory_fraction:0.5", 100 * MiB));
    take(allocator, 40 * MiB);
    EXPECT_FALSE(allocator.allocate(20 * MiB).has_value());
    EXPECT_EQ(allocator.outOfMemory().deviceFree, 10 * MiB);
    EXPECT_EQ(allocator.outOfMemory().wanted, 20 * MiB);
}

TEST(AllocatorRules, SegmentsOfGraphsStayWithThem)
{
    CachingAllocator allocator(rulesOf("", 40 * MiB));
    const auto inGraph = allocator.allocate(20 * MiB, 0, {0, 1});
    ASSERT_TRUE(inGraph.has_value());
    allocator.free(*inGraph);
    EXPECT_FALSE(allocator.allocate(30 * MiB).has_value()) << "a graph's segments are not given back";
    EXPECT_EQ(allocator.allocate(20 * MiB, 0, {0, 1}), inGraph);
}

TEST(ExpandableSegments, GrowByPagesAndTakeExactBlocks)
{
    CachingAllocator allocator(rulesOf("expandable_segments:True"));
    const Block a = take(allocator, 30 * MiB);
    EXPECT_EQ(allocator.stats().reserved, 40 * MiB) << "two pages of 20 MiB";
    const Block b = take(allocator, 25 * MiB);
    EXPECT_EQ(b, a + static_cast<Block>(30 * MiB)) << "from the mapped tail and one page more";
    EXPECT_EQ(allocator.stats().reserved, 60 * MiB);
    EXPECT_EQ(allocator.stats().allocated, 55 * MiB) << "no slack inside blocks";
    take(allocator, 4 * MiB + 512);
    EXPECT_EQ(allocator.stats().reserved, 60 * MiB);
    take(allocator, 1000);
    EXPECT_EQ(allocator.stats().reserved, 62 * MiB) << "the small pool's pages have 2 MiB";
    EXPECT_EQ(allocator.stats().inactiveSplit, 0) << "PyTorch does not count expandable segments";
}

TEST(ExpandableSegments, PreferTheBlockThatCannotGrow)
{
    CachingAllocator allocator(rulesOf("expandable_segments:True"));
    const Block a = take(allocator, 12 * MiB);
    take(allocator, 8 * MiB); // the page is full
    const Block c = take(allocator, 10 * MiB); // and 10 MiB of the next page are free at the end
    allocator.free(a);
    EXPECT_EQ(take(allocator, 9 * MiB), a) << "10 MiB fit better than 12, but could grow";
    EXPECT_EQ(c, a + static_cast<Block>(20 * MiB));
}

TEST(ExpandableSegments, WholePagesGoBackWhenTheDeviceIsFull)
{
    CachingAllocator allocator(rulesOf("expandable_segments:True", 100 * MiB));
    const Block a = take(allocator, 50 * MiB);
    take(allocator, 10 * MiB);
    allocator.free(a);
    EXPECT_EQ(allocator.stats().reserved, 60 * MiB);
    std::vector<CachingAllocator::SegmentEvent> events;
    allocator.setSegmentObserver([&](const CachingAllocator::SegmentEvent& event) { events.push_back(event); });
    // On another stream: 100 - 60 = 40 are left, so pages 1 and 2 of the freed block are unmapped.
    take(allocator, 70 * MiB, 1);
    EXPECT_EQ(allocator.stats().reserved, 100 * MiB);
    ASSERT_EQ(events.size(), 2U);
    EXPECT_EQ(events[0].size, 40 * MiB);
    EXPECT_FALSE(events[0].taken);
    EXPECT_EQ(events[0].address, a);
    EXPECT_EQ(events[1].size, 80 * MiB);
    EXPECT_TRUE(events[1].pages);
    EXPECT_FALSE(allocator.allocate(40 * MiB).has_value());
}

TEST(ExpandableSegments, FillTheHoleAtTheLowestAddress)
{
    CachingAllocator allocator(rulesOf("expandable_segments:True", 200 * MiB));
    const Block a = take(allocator, 40 * MiB);
    const Block b = take(allocator, 20 * MiB);
    allocator.free(a);
    allocator.releaseUnused();
    EXPECT_EQ(allocator.stats().reserved, 20 * MiB);
    EXPECT_EQ(take(allocator, 30 * MiB), a) << "mapped again where it was";
    EXPECT_EQ(allocator.stats().reserved, 60 * MiB);
    allocator.free(b);
}

TEST(ExpandableSegments, AnUnusedSegmentIsGivenUp)
{
    CachingAllocator allocator(rulesOf("expandable_segments:True"));
    allocator.free(take(allocator, 60 * MiB));
    allocator.releaseUnused();
    EXPECT_EQ(allocator.stats().reserved, 0);
    take(allocator, 60 * MiB);
    EXPECT_EQ(allocator.stats().reserved, 60 * MiB);
}

/// What must hold of every allocator, whatever its settings, in a long random run.
class AnySettings : public testing::TestWithParam<std::string>
{
};

TEST_P(AnySettings, BlocksAreDistinctAndSumsAgree)
{
    CachingAllocator allocator(rulesOf(GetParam(), 600 * MiB));
    Bytes taken = 0;
    allocator.setSegmentObserver(
        [&](const CachingAllocator::SegmentEvent& event) { taken += event.taken ? event.size : -event.size; });
    std::mt19937 random(11);
    std::map<Block, Bytes> live; // requested bytes
    Bytes requested = 0;
    int failures = 0;
    for (int i = 0; i < 30'000; ++i) {
        if (live.empty() || random() % 9 < 5) {
            const Bytes bytes = 1 + static_cast<Bytes>(random() % (random() % 6 ? 300'000 : 50'000'000));
            const auto block = allocator.allocate(bytes, random() % 3);
            if (!block) {
                ++failures;
                EXPECT_LT(allocator.outOfMemory().deviceFree, allocator.outOfMemory().wanted);
                continue;
            }
            const auto next = live.upper_bound(*block);
            ASSERT_TRUE(next == live.end() || *block + static_cast<Block>(bytes) <= next->first);
            ASSERT_TRUE(next == live.begin()
                        || std::prev(next)->first + static_cast<Block>(std::prev(next)->second) <= *block);
            live.emplace(*block, bytes);
            requested += bytes;
        } else {
            auto victim = std::next(live.begin(), static_cast<std::ptrdiff_t>(random() % live.size()));
            requested -= victim->second;
            allocator.free(victim->first);
            live.erase(victim);
        }
        const CachingAllocator::Stats stats = allocator.stats();
        ASSERT_EQ(stats.requested, requested);
        ASSERT_EQ(stats.reserved, taken);
        ASSERT_LE(stats.requested, stats.allocated);
        ASSERT_LE(stats.allocated + stats.inactiveSplit, stats.reserved);
        ASSERT_LE(stats.reserved, 600 * MiB);
        ASSERT_GE(stats.inactiveSplit, 0);
    }
    EXPECT_GT(failures, 0) << "the device was never full: the run shows too little";
    for (const auto& [block, bytes] : live)
        allocator.free(block);
    EXPECT_EQ(allocator.stats().inactiveSplit, 0) << "everything merged";
    allocator.releaseUnused();
    EXPECT_EQ(allocator.stats().reserved, 0);
}

INSTANTIATE_TEST_SUITE_P(Settings, AnySettings,
                         testing::Values("", "max_split_size_mb:24", "expandable_segments:True",
                                         "roundup_power2_divisions:8",
                                         "garbage_collection_threshold:0.4,per_process_memory_fraction:0.9",
                                         "max_split_size_mb:24,expandable_segments:True,roundup_power2_divisions:2"));

} // namespace
} // namespace headroom
