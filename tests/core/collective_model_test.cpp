// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cost/collective_model.h"
#include "core/cost/step_times.h"
#include "core/predict/step_clock.h"
#include "core/trace/step_trace_builder.h"
#include "tests/core/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <fstream>
#include <numeric>

using namespace headroom;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace {

constexpr double gigabyte = 1e9;

Topology named(const char* name)
{
    return *findTopology(name);
}

double busBandwidth(const Topology& topology, CollectiveKind kind, double bytes, const GroupShape& group)
{
    const double factor = kind == CollectiveKind::allReduce ? 2.0 : 1.0;
    return factor * (group.ranks - 1) / group.ranks * bytes / (collectiveMs(topology, kind, bytes, group) * 1e6);
}

} // namespace

TEST(CollectiveModel, PublishedFiguresThatWereLeftForCheckingAreMet)
{
    std::ifstream file(HEADROOM_TEST_DATA "/published/collectives.json");
    double error = 0;
    int count = 0;
    for (const auto& row : nlohmann::json::parse(file)) {
        const double bytes = row.at("bytes");
        if (row.at("fit") || bytes < 1 << 20)
            continue;
        const int ranks = row.at("gpus");
        const GroupShape group{ranks, (ranks + 7) / 8, std::min(ranks, 8)};
        const double us = 1e3
            * collectiveMs(named(row.at("topology").get<std::string>().c_str()), CollectiveKind::allReduce, bytes,
                           group);
        error += std::abs(us / row.at("us").get<double>() - 1);
        ++count;
    }
    ASSERT_GT(count, 30);
    EXPECT_LT(error / count, 0.15);
}

TEST(CollectiveModel, TheSwitchReducesButDoesNotGather)
{
    const Topology h100 = named("h100-8x400");
    const GroupShape node{8, 1, 8};
    EXPECT_NEAR(busBandwidth(h100, CollectiveKind::allReduce, 8 * gigabyte, node), 480, 10);
    EXPECT_NEAR(busBandwidth(h100, CollectiveKind::allGather, 8 * gigabyte, node), 370, 10);
    EXPECT_NEAR(busBandwidth(named("a100-8x200"), CollectiveKind::reduceScatter, 8 * gigabyte, node), 234, 5);
}

TEST(CollectiveModel, GroupsOfOneRankANodeShareItsNetwork)
{
    const Topology topology = named("h100-8x400");
    const double whole = collectiveMs(topology, CollectiveKind::allGather, 2 * gigabyte, {16, 2, 8});
    const double rail = collectiveMs(topology, CollectiveKind::allGather, 2 * gigabyte, {2, 2, 1});
    EXPECT_GT(rail, 3 * whole);
    EXPECT_EQ(collectiveMs(topology, CollectiveKind::allGather, gigabyte, {1, 1, 1}), 0);
    const std::vector<std::uint32_t> ranks{0, 8, 16, 24};
    const GroupShape shape = groupShape(ranks, 8);
    EXPECT_EQ(shape.nodes, 4);
    EXPECT_EQ(shape.perNode, 1);
}

TEST(CollectiveModel, SmallMessagesTakeALatencyThatGrowsWithTheGroup)
{
    const Topology topology = named("h100-8x400");
    const double small = collectiveMs(topology, CollectiveKind::allGather, 1024, {8, 1, 8});
    EXPECT_GT(small, 0.005);
    EXPECT_LT(small, 0.03);
    EXPECT_GT(collectiveMs(topology, CollectiveKind::allGather, 1024, {128, 16, 8}), 3 * small);
}

TEST(Topology, EveryCardHasOneAndUnknownNamesAreListed)
{
    for (const DeviceSpec& card : deviceSpecs())
        EXPECT_FALSE(std::ranges::find(topologyOf(card.name).cards, card.name) == topologyOf(card.name).cards.end())
            << card.name;
    EXPECT_THAT(findTopology("ring").error().message, HasSubstr("unknown topology 'ring': expected h100-8x400"));
}

TEST(Topology, AFileOfItsOwnIsReadAndItsFaultsAreNamed)
{
    TemporaryFolder folder;
    const auto path = folder.path() / "mine.json";
    const auto write = [&](const std::string& text) { std::ofstream(path) << text; };
    const Topology known = named("a100-efa");
    write(topologyToJson(known));
    const auto read = findTopology(path.string());
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(*read, known);
    write(R"({"topologies": [{"name": "x", "ranks_per_node": 4, "node": "nvlink3", "network": "carrier pigeon"}]})");
    EXPECT_THAT(findTopology(path.string()).error().message, HasSubstr("network is no link"));
    write(R"({"topologies": [{"name": "x", "ranks_per_node": 0, "node": "nvlink3", "network": "ib-8x400"}]})");
    EXPECT_THAT(findTopology(path.string()).error().message, HasSubstr("how many GPUs a node has"));
}

TEST(NcclTests, OutputCalibratesTheLinkThatItRanOn)
{
    std::string text = "# nThread 1 nGpus 4\n";
    for (int rank = 0; rank < 4; ++rank)
        text += "#  Rank  " + std::to_string(rank) + " Group  0 Pid  7 on box device  " + std::to_string(rank)
            + " [0x07] NVIDIA A100-SXM4-80GB\n";
    text += "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   "
            "busbw\n"
            "     1048576        262144     float    none      -1    50.00   20.97   15.73      0    50.0   20.97   "
            "15.73\n"
            "  1073741824     268435456     float    none      -1  8053.06  133.33  100.00      0  8053   133.33  "
            "100.00\n";
    ASSERT_TRUE(isNcclTests(text));
    const auto samples = readNcclTests(text, "out.txt");
    ASSERT_TRUE(samples) << samples.error().message;
    ASSERT_EQ(samples->size(), 2U);
    EXPECT_EQ(samples->back().kind, CollectiveKind::allGather);
    EXPECT_EQ(samples->back().group.ranks, 4);
    const auto topology = calibrated(named("a100-8x200"), *samples);
    ASSERT_TRUE(topology) << topology.error().message;
    for (const CollectiveSample& sample : *samples)
        EXPECT_NEAR(1e3 * collectiveMs(*topology, sample.kind, sample.bytes, sample.group), sample.us, 0.2 * sample.us);
    EXPECT_NEAR(busBandwidth(*topology, CollectiveKind::allGather, gigabyte, {8, 1, 8}), 100, 2);
    EXPECT_EQ(topology->network, named("a100-8x200").network);

    EXPECT_THAT(readNcclTests("algbw busbw\n", "out.txt").error().message, HasSubstr("has no row of nccl-tests"));
    EXPECT_THAT(calibrated(named("a100-8x200"), {}).error().message, HasSubstr("no collective of 1 MiB or more"));
}

namespace {

/// Two layers, each gathered on stream 7 before it computes on stream 0.
struct Gathered
{
    StepTraceBuilder builder;
    GroupId group;
    ModuleId root, layer;

    Gathered()
    {
        builder.info.gpu = "h100-80gb";
        builder.info.distributed = RankInfo{8, 8, 0};
        root = builder.addModule("Net", "Net", {});
        layer = builder.addModule("Net.layer", "Layer", root);
        std::vector<std::uint32_t> ranks(8);
        std::iota(ranks.begin(), ranks.end(), 0);
        group = builder.group("0", ranks);
        builder.mark(Mark::stepBegin);
    }
    OpId run(double ms, std::uint32_t stream, Bytes gathers = 0)
    {
        const OpId op = builder.beginOp({builder.string("aten.add.Tensor"), {}, layer, {}, {}, Phase::forward});
        builder.setStream(op, stream);
        if (gathers > 0)
            builder.collective(op, {CollectiveKind::allGather, gathers, group});
        const std::vector<std::int64_t> signature{0, 0, 0};
        builder.endOp(op, {.ms = ms, .signature = signature});
        return op;
    }
    void event(std::uint32_t from, std::uint32_t to, std::uint32_t number)
    {
        builder.streamEvent(StreamEventKind::record, from, number);
        builder.streamEvent(StreamEventKind::wait, to, number);
    }
};

} // namespace

TEST(StepClock, CommunicationIsExposedWhereNothingElseRuns)
{
    Gathered step;
    const OpId first = step.run(4, 7, GiB); // nothing runs beside it
    step.event(7, 0, 1);
    const OpId second = step.run(6, 7, GiB); // behind the compute of 10 ms
    step.run(10, 0);
    step.event(7, 0, 2);
    step.run(10, 0);
    const auto trace = step.builder.finish();
    ASSERT_TRUE(trace) << trace.error().message;
    const auto clock = clockOf(**trace, {});
    ASSERT_TRUE(clock) << clock.error().message;
    EXPECT_NEAR(clock->stepMs, 24, 0.2);
    EXPECT_NEAR(clock->gpuMs, 20, 1e-9);
    EXPECT_NEAR(clock->communicationMs, 10, 1e-9);
    EXPECT_NEAR(clock->exposedMs, 4, 0.1);
    ASSERT_EQ(clock->collectives.size(), 2U);
    EXPECT_EQ(clock->collectives[0].op, first);
    EXPECT_NEAR(clock->collectives[0].exposedMs, 4, 0.1);
    EXPECT_EQ(clock->collectives[1].op, second);
    EXPECT_NEAR(clock->collectives[1].exposedMs, 0, 0.1);
    const auto modules = communicationByModule(**trace, *clock);
    ASSERT_EQ(modules.size(), 1U);
    EXPECT_EQ(modules[0].module, step.layer);
    EXPECT_EQ(modules[0].collectives, 2);
    EXPECT_EQ(modules[0].bytes, 2 * GiB);
}

TEST(StepClock, CollectivesOfHooksInBackwardAreThoseOfTheModuleThatTheyServe)
{
    Gathered step;
    StepTraceBuilder& builder = step.builder;
    const ModuleId norm = builder.addModule("Net.layer.norm", "RMSNorm", step.layer);
    const StorageId weight = builder.alloc(4096, Category::parameter, {});
    builder.addRegistered(norm, "weight", weight, Category::parameter);
    const auto run = [&](ModuleId module, Phase phase, CollectiveKind kind, std::vector<StorageId> inputs, bool talks) {
        const OpId op = builder.beginOp({builder.string("op"), {}, module, {}, {}, phase});
        if (talks)
            builder.collective(op, {kind, GiB, step.group});
        const StorageId made = builder.alloc(4096, Category::temporary, op);
        builder.endOp(op, {.inputs = inputs, .outputs = std::array{made}});
        return made;
    };
    using enum CollectiveKind;
    run(step.layer, Phase::forward, allGather, {}, true);
    const StorageId packed = run(step.root, Phase::backward, allGather, {weight}, false);
    run(step.root, Phase::backward, allGather, {packed}, true);
    run(norm, Phase::backward, allGather, {}, false);
    run(step.root, Phase::backward, reduceScatter, {}, true);
    run(step.root, Phase::optimizer, allReduce, {}, true);
    const auto trace = builder.finish();
    ASSERT_TRUE(trace) << trace.error().message;
    EXPECT_THAT(collectiveModules(**trace), ElementsAre(step.layer, step.layer, step.layer, step.root));
}

TEST(StepClock, ABufferThatAUnitRegisteredNamesTheModuleOfItsCollective)
{
    Gathered step;
    StepTraceBuilder& builder = step.builder;
    const ModuleId other = builder.addModule("Net.other", "Layer", step.root);
    // The unit's buffer comes before the shards that were read last, which are of another module.
    const StorageId shard = builder.alloc(4096, Category::parameter, {});
    builder.addRegistered(other, "weight", shard, Category::parameter);
    const OpId op = builder.beginOp({builder.string("all_gather"), {}, step.root, {}, {}, Phase::backward});
    builder.collective(op, {CollectiveKind::allGather, GiB, step.group});
    const StorageId gathered = builder.alloc(8 * 4096, Category::communication, op);
    builder.addRegistered(step.layer, "output of all_gather", gathered, Category::communication);
    builder.endOp(op, {.ms = 2, .inputs = std::array{shard}, .outputs = std::array{gathered}});
    const auto trace = builder.finish();
    ASSERT_TRUE(trace) << trace.error().message;
    EXPECT_THAT(collectiveModules(**trace), ElementsAre(step.layer));
    StepClock clock;
    clock.collectives.push_back({.op = op, .ms = 2, .exposedMs = 1.5});
    EXPECT_THAT(exposedByModule(**trace, {step.layer}, clock), ElementsAre(1.5, 1.5, 0)); // the root's are all
}

TEST(StepClock, CollectivesHaveTheirPlaceOnTheAxisOfTheTimeline)
{
    Gathered step;
    step.run(3, 0);
    step.run(4, 7, GiB);
    step.run(5, 0);
    step.run(6, 7, GiB);
    const auto clock = clockOf(**step.builder.finish(), {});
    ASSERT_EQ(clock->collectives.size(), 2U);
    EXPECT_DOUBLE_EQ(clock->collectives[0].atMs, 3); // ops one after the other
    EXPECT_DOUBLE_EQ(clock->collectives[1].atMs, 12);
    EXPECT_LT(clock->collectives[1].beginMs, 5); // streams side by side
}

TEST(StepClock, WithoutEventsStreamsRunSideBySideAndOneStreamInARow)
{
    for (const bool apart : {true, false}) {
        Gathered step;
        step.run(10, apart ? 7 : 0, GiB);
        step.run(10, 0);
        const auto clock = clockOf(**step.builder.finish(), {});
        EXPECT_NEAR(clock->stepMs, apart ? 10 : 20, 0.2);
        EXPECT_NEAR(clock->exposedMs, apart ? 0 : 10, 0.2);
    }
}

TEST(StepClock, TheCpuWaitsForAnEventThatItSynchronizesWith)
{
    Gathered step;
    step.run(10, 7, GiB);
    step.builder.streamEvent(StreamEventKind::record, 7, 1);
    step.builder.streamEvent(StreamEventKind::synchronize, 0, 1);
    step.run(10, 0);
    EXPECT_NEAR(clockOf(**step.builder.finish(), {})->stepMs, 20, 0.2);
}

/// What slows kernels in a job is the power limit, which products without tensor cores do not reach.
TEST(StepTimes, ProductsInFloat32AreNotSlowerInAJob)
{
    Gathered step;
    step.run(0, 7, GiB);
    const OpId product = step.run(3, 0);
    auto trace = std::make_shared<StepTrace>(**step.builder.finish());
    std::vector<double> flops(trace->ops.size(), 0);
    flops[product.value] = 1e12;
    trace->ops.flops.rows = flops;
    const Topology topology = named("h100-8x400");
    const std::vector<double> ms(trace->ops.size(), 3.0);
    const auto timed = [&](DType dtype) {
        const std::vector<DType> dtypes(trace->ops.size(), dtype);
        trace->ops.dtype.rows = dtypes;
        return withCollectives(*trace, topology, ms, true)[product.value];
    };
    EXPECT_NEAR(timed(DType::bfloat16), 3 / topology.computeShare, 1e-9);
    EXPECT_NEAR(timed(DType::float32), 3, 1e-9);
}

TEST(StepTimes, CollectivesTakeWhatTheTopologySays)
{
    Gathered step;
    const OpId op = step.run(0, 7, GiB);
    const OpId computes = step.run(3, 0);
    const StepTracePtr trace = *step.builder.finish();
    auto single = std::make_shared<StepTrace>(*trace);
    single->collectives = {};
    const StepTracePtr alone = single;
    const auto fast = withTimes(trace, {TimeModel::kernel, {}, "none"});
    ASSERT_TRUE(fast) << fast.error().message;
    EXPECT_NEAR(fast->step->ops.ms[op],
                collectiveMs(named("h100-8x400"), CollectiveKind::allGather, static_cast<double>(GiB), {8, 1, 8}),
                1e-9);
    EXPECT_NEAR(fast->step->ops.ms[computes],
                withTimes(alone, {TimeModel::kernel, {}, "none"})->step->ops.ms[computes]
                    / named("h100-8x400").computeShare,
                1e-9)
        << "clocks fall in a job";
    const auto slow = withTimes(trace, {TimeModel::kernel, {}, "none", "pcie4-25"});
    ASSERT_TRUE(slow) << slow.error().message;
    EXPECT_GT(slow->step->ops.ms[op], 10 * fast->step->ops.ms[op]);
    EXPECT_THAT(withTimes(trace, {TimeModel::kernel, {}, "none", "nowhere"}).error().message,
                HasSubstr("unknown topology 'nowhere'"));
}
