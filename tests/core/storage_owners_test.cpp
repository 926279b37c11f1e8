// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/timeline/storage_owners.h"
#include "core/trace/step_trace_builder.h"

#include <gtest/gtest.h>

using namespace headroom;

namespace {

/// Two units: one with a gathered weight and its gradient, one with a buffer; a bucket of none, a shard and
/// activations.
struct Sharded
{
    StepTraceBuilder builder;
    ModuleId root, first, second;
    StorageId shard, gathered, gradient, buffer, bucket, activation;
    StepTracePtr trace;

    Sharded()
    {
        root = builder.addModule("Net", "Net", {});
        first = builder.addModule("Net.first", "Block", root);
        second = builder.addModule("Net.second", "Block", root);
        builder.mark(Mark::stepBegin);
        shard = builder.alloc(512, Category::parameter, {});
        builder.addRegistered(second, "weight", shard, Category::parameter);
        const OpId op = builder.beginOp({builder.string("op"), {}, root, {}, {}, Phase::forward});
        gathered = builder.alloc(4096, Category::unshardedParameter, op);
        gradient = builder.alloc(1024, Category::unshardedGradient, op);
        buffer = builder.alloc(8192, Category::communication, op);
        bucket = builder.alloc(2048, Category::communication, op);
        activation = builder.alloc(512, Category::activation, op);
        builder.endOp(op, {});
        // As the recorder says it, in forward and again in backward.
        for (int i = 0; i < 2; ++i)
            builder.addRegistered(first, "linear.weight", gathered, Category::unshardedParameter);
        builder.addRegistered(first, "linear.weight", gradient, Category::unshardedGradient);
        builder.addRegistered(second, "output of all_gather", buffer, Category::communication);
        trace = *builder.finish();
    }
    std::vector<LiveBlock> blocks() const
    {
        std::vector<LiveBlock> all;
        for (std::uint32_t i = 0; i < trace->storages.size(); ++i)
            all.push_back({StorageId(i), trace->storages.bytes[StorageId(i)], trace->storages.category[StorageId(i)],
                           trace->storages.creator[StorageId(i)], false});
        return all;
    }
};

} // namespace

TEST(StorageOwners, UnitsHoldWhatIsUnshardedAndModulesTheRest)
{
    const Sharded step;
    const StorageOwners owners(*step.trace);
    EXPECT_TRUE(owners.anyUnit());
    EXPECT_EQ(owners.unit(step.gathered), step.first);
    EXPECT_EQ(owners.unit(step.buffer), step.second);
    EXPECT_FALSE(owners.unit(step.shard).valid());
    EXPECT_FALSE(owners.unit(step.bucket).valid());
    EXPECT_EQ(owners.module(step.shard), step.second);
    EXPECT_EQ(owners.module(step.gathered), step.first);
    EXPECT_EQ(owners.module(step.activation), step.root);
}

TEST(StorageOwners, BytesByUnitLargestFirst)
{
    const Sharded step;
    const auto units = unshardedByUnit(StorageOwners(*step.trace), step.blocks());
    ASSERT_EQ(units.size(), 3U);
    EXPECT_EQ(units[0].unit, step.second);
    EXPECT_EQ(units[0].communication, 8192);
    EXPECT_EQ(units[1].unit, step.first);
    EXPECT_EQ(units[1].parameters, 4096);
    EXPECT_EQ(units[1].gradients, 1024);
    EXPECT_EQ(units[1].total(), 5120);
    EXPECT_FALSE(units[2].unit.valid());
    EXPECT_EQ(units[2].communication, 2048);
}

TEST(StorageOwners, HoldingsAddUpToWhatIsAlive)
{
    const Sharded step;
    const auto blocks = step.blocks();
    Bytes sum = 0;
    std::int64_t count = 0;
    for (const ModuleHolding& holding : heldByModule(StorageOwners(*step.trace), blocks)) {
        sum += holding.bytes;
        count += holding.blocks;
    }
    EXPECT_EQ(sum, 512 + 4096 + 1024 + 8192 + 2048 + 512);
    EXPECT_EQ(count, 6);
}
