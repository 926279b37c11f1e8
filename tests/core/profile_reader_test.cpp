// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// What is read of a file that may be a trace of torch.profiler, and what is said of one that is none.
#include "core/profile/import.h"
#include "core/profile/profile.h"
#include "core/profile/profile_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

namespace headroom {
namespace {

using testing::StartsWith;

const std::string folder = HEADROOM_TEST_DATA "/profiles/";

Result<Profile> read(const std::string& text)
{
    return readProfile(std::as_bytes(std::span(text)), "t.json");
}

TEST(ProfileReader, KernelsOfNcclSayWhatTheyMoved)
{
    const auto profile = read(
        R"({"traceEvents":[
            {"ph":"X","cat":"cpu_op","name":"aten::mm","ts":0,"dur":1,"pid":1,"tid":1},
            {"ph":"X","cat":"kernel","name":"ncclDevKernel_AllGather_RING_LL","pid":0,"tid":7,"ts":2,"dur":900.5,
             "args":{"Collective name":"_allgather_base","dtype":"BFloat16","In msg nelems":16777216,
             "Out msg nelems":134217728,"Group size":8,"Process Group Ranks":"[0, 1, 2, 3, 4, 5, 6, 7]"}},
            {"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce_Sum","pid":0,"tid":7,"ts":1000,"dur":50,
             "args":{"Collective name":"allreduce","dtype":"Float","In msg nelems":1024,"Out msg nelems":1024,
             "Group size":16,"Process Group Ranks":"[0, 8, ..., 120]"}},
            {"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":3000,"dur":50,"args":{}}]})");
    ASSERT_TRUE(profile) << profile.error().message;
    const std::vector<CollectiveSample> samples = collectivesOf(*profile, 8);
    ASSERT_EQ(samples.size(), 2U);
    EXPECT_EQ(samples[0].kind, CollectiveKind::allGather);
    EXPECT_EQ(samples[0].bytes, 2.0 * 134217728);
    EXPECT_EQ(samples[0].us, 900.5);
    EXPECT_EQ(samples[0].group.nodes, 1);
    EXPECT_EQ(samples[1].kind, CollectiveKind::allReduce);
    EXPECT_EQ(samples[1].group.ranks, 16);
    EXPECT_EQ(samples[1].group.nodes, 16);
}

TEST(ProfileReader, WhatIsNoTraceIsOneSentence)
{
    const std::string good
        = R"({"traceEvents":[{"ph":"X","cat":"cpu_op","name":"aten::mm","ts":0,"dur":1,"pid":1,"tid":1}]})";
    const std::string expected = ": expected a trace of torch.profiler (export_chrome_trace)";
    const std::vector<std::pair<std::string, std::string>> cases{
        {"", " is empty" + expected},
        {"   ", " is empty" + expected},
        {good.substr(0, good.size() - 1), " is cut off: the JSON ends in the middle, after "},
        {good.substr(0, good.size() / 2), " is cut off: the JSON ends in the middle, after "},
        {R"({"traceEvents":[{"ph":"X" 1}]})", " is no JSON from byte 26 on" + expected},
        {good + "x", " is no JSON from byte "},
        {"[1,2]", " is a trace without ops of PyTorch" + expected},
        {R"({"nodes":[{"name":"aten::mm"}]})", " is JSON without `traceEvents`" + expected},
        {"3", " is JSON without `traceEvents`" + expected},
        {R"({"traceEvents":[{"ph":"X","cat":"browser","name":"paint","ts":1,"dur":2}]})",
         " is a trace without ops of PyTorch" + expected},
        {std::string(1000, '['), " nests 64 deep, and no trace does that" + expected},
        {R"({"traceEvents":[{"a":)" + std::string(100'000, '['), " nests 64 deep, and no trace does that" + expected},
        {R"({"traceEvents":[{"ph":"X","ts":99999999999999999999}]})",
         " has a number that cannot be, 99999999999999999999, in event 1" + expected},
        {R"({"traceEvents":[{"ph":"X","ts":1e400}]})", " has a number that cannot be at byte 31" + expected},
        {R"({"traceEvents":[{"ph":"X","ts":1},{"ph":"X","dur":NaN}]})",
         " has a number that cannot be, NaN, in event 2" + expected},
        {R"({"traceEvents":[{"args":{"Bytes":1e999999}}]})", " has a number that cannot be at byte "},
        {std::string("\x1f\x8b\x08\x00\x00", 5), " is cut off: the compressed data end in the middle"},
        {std::string("\x1f\x8b\x07\x00\x00 nothing that was packed", 28),
         " is damaged: the compressed data cannot be unpacked at byte "},
    };
    for (const auto& [text, sentence] : cases) {
        const Result<Profile> profile = read(text);
        ASSERT_FALSE(profile.ok()) << text.substr(0, 80);
        EXPECT_THAT(profile.error().message, StartsWith("t.json" + sentence)) << text.substr(0, 80);
        EXPECT_EQ(profile.error().message.find('\n'), std::string::npos);
        EXPECT_EQ(profile.error().kind, ErrorKind::badInput);
    }
}

TEST(ProfileReader, EveryCutOfAPackedTraceIsOneSentence)
{
    std::ifstream in(folder + "linear_mi250_torch25.json.gz", std::ios::binary);
    const std::string whole{std::istreambuf_iterator<char>(in), {}};
    ASSERT_TRUE(read(whole).ok());
    for (std::size_t size = 2; size < whole.size(); size += 37) {
        const Result<Profile> profile = read(whole.substr(0, size));
        ASSERT_FALSE(profile.ok());
        EXPECT_THAT(profile.error().message, StartsWith("t.json is cut off")) << size;
    }
    std::string damaged = whole;
    damaged[damaged.size() / 2] ^= 0x40;
    EXPECT_FALSE(read(damaged).ok());
    EXPECT_TRUE(read(whole + std::string(512, '\0')).ok()) << "gzip ignores what follows";
}

TEST(ProfileReader, TimesKeepTheirNanoseconds)
{
    const Result<Profile> profile = read(
        R"([{"ph":"X","cat":"cpu_op","name":"aten::mm","ts":1712195495502094.123,"dur":0.875,"pid":1,"tid":"7"}])");
    ASSERT_TRUE(profile.ok()) << profile.error().message;
    EXPECT_EQ(profile->spans.front().begin, 1'712'195'495'502'094'123);
    EXPECT_EQ(profile->spans.front().end - profile->spans.front().begin, 875);
}

TEST(ProfileReader, IsKnownByItsContent)
{
    EXPECT_TRUE(isProfileFile(folder + "mlp_gpu.json.gz"));
    EXPECT_FALSE(isProfileFile(folder + "mlp.hrs"));
    EXPECT_FALSE(isProfileFile(HEADROOM_TEST_DATA "/snapshots/protocol4.pickle"));
    EXPECT_FALSE(isProfileFile(folder));
    EXPECT_TRUE(readMeasured(folder + "mlp.hrs").value()->info.simulated);
    EXPECT_EQ(readMeasured(HEADROOM_TEST_DATA "/snapshots/protocol4.pickle").value()->info.source, "snapshot");
}

} // namespace
} // namespace headroom
