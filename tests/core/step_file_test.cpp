// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/trace/step_file.h"

#include "core/base/checksum.h"
#include "core/base/mapped_file.h"
#include "core/predict/predict.h"
#include "core/trace/step_format.h"
#include "core/trace/step_trace_builder.h"
#include "tests/core/step_bytes.h"
#include "tests/core/synthetic_step.h"
#include "tests/core/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>
#include <fstream>
#include <random>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>

using namespace headroom;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;

namespace {

SyntheticOptions tiny()
{
    SyntheticOptions options;
    options.blocks = 1;
    options.elementwise = 0;
    return options;
}

std::string openError(const StepBytes& bytes, stepformat::Checksums checksums = stepformat::Checksums::verify)
{
    const auto result = bytes.open(checksums);
    if (result)
        return "no error";
    EXPECT_EQ(result.error().kind, ErrorKind::badInput);
    return result.error().message;
}

std::vector<std::string> filesIn(const std::filesystem::path& folder)
{
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder))
        names.push_back(entry.path().filename().string());
    return names;
}

class StepFile : public ::testing::Test
{
protected:
    TemporaryFolder folder_;
    std::filesystem::path path_ = folder_.path() / "step.hrs";
};

/// What a program does that writes into the file of an open step: `cp other.hrs step.hrs`, `: > step.hrs`.
void writeInPlace(const std::filesystem::path& path, const std::string& content)
{
    std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
}

std::string contentOf(const std::filesystem::path& path)
{
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

} // namespace

TEST_F(StepFile, RoundTripKeepsEveryColumn)
{
    auto written = std::make_shared<StepTrace>(*makeSyntheticStep());
    written->info.settings = {{"n_layers", "4"}, {"dim", "ü"}};
    written->info.dimensions = {{"batch", 8, 1, 0}, {"sequence", 64, 2, 1024}};
    written->info.arguments = {"demo:mlp", "--batch", "8"};
    written->info.holdOutput = true;
    MeasuredStep& measured = written->info.measured.emplace();
    measured.stepMs = 12.5;
    measured.kernels = 321;
    measured.reservedPeak = 20 * MiB;
    measured.moduleMs = {12.25, 0.1};
    measured.notes = {"CUPTI is not there"};
    ASSERT_TRUE(writeStepTrace(*written, path_));
    EXPECT_THAT(filesIn(folder_.path()), ElementsAre("step.hrs"));

    const auto result = readStepTrace(path_);
    ASSERT_TRUE(result) << result.error().message;
    const StepTrace& read = **result;
    EXPECT_EQ(read.info.model, "synthetic");
    EXPECT_EQ(read.info.batch, 8);
    EXPECT_TRUE(read.info.holdOutput);
    EXPECT_EQ(read.info.settings, written->info.settings);
    EXPECT_EQ(read.info.dimensions, written->info.dimensions);
    EXPECT_EQ(read.info.arguments, written->info.arguments);
    EXPECT_EQ(read.info.measured, written->info.measured);

    std::size_t columns = 0;
    const auto compare = [&](std::string_view name, const auto& before, const auto& after) {
        const auto bytes = std::as_bytes(after);
        EXPECT_TRUE(std::ranges::equal(bytes, std::as_bytes(before))) << name;
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(bytes.data()) % stepformat::alignment, 0U) << name;
        ++columns;
    };
    stepformat::visitColumns(compare, *written, read);
    EXPECT_EQ(columns, 43U);
}

TEST_F(StepFile, CollectivesAndStreamsAreKept)
{
    StepTraceBuilder builder;
    builder.info.distributed = RankInfo{16, 8, 9};
    builder.mark(Mark::stepBegin);
    const auto run = [&](std::uint32_t stream) {
        const OpId op = builder.beginOp({builder.string("c10d.allreduce_.default"), {}, {}, {}, {}, Phase::backward});
        builder.setStream(op, stream);
        return op;
    };
    builder.endOp(run(0), {});
    const StorageId used = builder.alloc(1024, Category::other, {});
    builder.streamEvent(StreamEventKind::record, 0, 3);
    builder.streamEvent(StreamEventKind::wait, 5, 3);
    const OpId op = run(5);
    const GroupId group = builder.group("1", std::array{1U, 9U});
    EXPECT_EQ(builder.group("1", {}), group);
    builder.collective(op, {CollectiveKind::allReduce, 4096, group, StepTrace::Collectives::noPeer, true});
    builder.endOp(op, {});
    builder.streamEvent(StreamEventKind::synchronize, 0, 3);
    builder.use(used, 5);
    builder.resize(used, 0);
    builder.resize(used, 1024, 5);
    builder.endOp(run(0), {});
    const auto written = builder.finish();
    ASSERT_TRUE(written) << written.error().message;
    ASSERT_TRUE(writeStepTrace(**written, path_));

    const auto result = readStepTrace(path_);
    ASSERT_TRUE(result) << result.error().message;
    const StepTrace& read = **result;
    EXPECT_EQ(read.info.distributed, (RankInfo{16, 8, 9}));
    EXPECT_THAT(read.ops.stream.rows, ElementsAre(0, 5, 0));
    ASSERT_EQ(read.groups.size(), 1U);
    EXPECT_EQ(read.strings[read.groups.name[group]], "1");
    EXPECT_THAT(read.groups.ranks[group], ElementsAre(1, 9));
    ASSERT_EQ(read.collectives.size(), 1U);
    EXPECT_EQ(read.collectives.op[0], op);
    EXPECT_EQ(collectiveName(read.collectives.kind[0]), "all_reduce");
    EXPECT_EQ(read.collectives.bytes[0], 4096);
    EXPECT_EQ(read.collectives.group[0], group);
    EXPECT_EQ(read.collectives.async[0], 1);
    EXPECT_THAT(read.streamEvents.op, ElementsAre(op, op, OpId(2), OpId(2)));
    EXPECT_THAT(read.streamEvents.kind,
                ElementsAre(StreamEventKind::record, StreamEventKind::wait, StreamEventKind::synchronize,
                            StreamEventKind::use));
    EXPECT_THAT(read.streamEvents.stream, ElementsAre(0, 5, 0, 5));
    EXPECT_THAT(read.streamEvents.event, ElementsAre(3, 3, 3, used.value));
    const auto at = [](std::uint32_t event) { return EventIndex(event); }; // stepBegin, an op, an allocation, an op
    EXPECT_THAT(read.streamEvents.position, ElementsAre(at(4), at(4), at(6), at(6)));
    EXPECT_THAT(read.resizes.stream, ElementsAre(0, 5));
}

/// A step with one row before training, and the rows given between steps.
Result<StepTracePtr> withOutside(StepTraceBuilder::Outside betweenSteps)
{
    StepTraceBuilder builder;
    builder.mark(Mark::stepBegin);
    builder.setOutside({{OutsideKind::alloc}, {700}, {65536}, {0}}, std::move(betweenSteps));
    return builder.finish();
}

TEST_F(StepFile, MemoryOutsideOfStepsIsKept)
{
    using enum OutsideKind;
    const auto written = withOutside({{freeOlder, alloc, free, emptyCache}, {5, 9, 9, 0}, {0, 7, 7, 0}, {0, 0, 1, 0}});
    ASSERT_TRUE(written) << written.error().message;
    ASSERT_TRUE(writeStepTrace(**written, path_));
    const auto result = readStepTrace(path_);
    ASSERT_TRUE(result) << result.error().message;
    const StepTrace& read = **result;
    EXPECT_THAT(read.beforeTraining.kind, ElementsAre(alloc));
    EXPECT_THAT(read.beforeTraining.bytes, ElementsAre(700));
    EXPECT_THAT(read.beforeTraining.stream, ElementsAre(65536));
    EXPECT_THAT(read.betweenSteps.kind, ElementsAre(freeOlder, alloc, free, emptyCache));
    EXPECT_THAT(read.betweenSteps.bytes, ElementsAre(5, 9, 9, 0));
    EXPECT_THAT(read.betweenSteps.stream, ElementsAre(0, 7, 7, 0));
    EXPECT_THAT(read.betweenSteps.block, ElementsAre(0, 0, 1, 0));
}

TEST_F(StepFile, MemoryOutsideOfStepsThatCannotBeIsRefused)
{
    using enum OutsideKind;
    const auto reason = [](StepTraceBuilder::Outside rows) { return withOutside(std::move(rows)).error().message; };
    const char* const dead = "of between_steps frees a block that is not alive";
    EXPECT_THAT(reason({{free}, {1}, {0}, {0}}), HasSubstr(dead)) << "its own row";
    EXPECT_THAT(reason({{alloc, free, free}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}}), HasSubstr(dead)) << "a second free";
    EXPECT_THAT(reason({{emptyCache, free}, {0, 1}, {0, 0}, {0, 0}}), HasSubstr(dead))
        << "a row that allocates nothing";
    EXPECT_THAT(reason({{alloc}, {-1}, {0}, {0}}), HasSubstr("between_steps.bytes"));
    EXPECT_THAT(reason({{static_cast<OutsideKind>(4)}, {1}, {0}, {0}}), HasSubstr("between_steps.kind"));
    EXPECT_THAT(reason({{alloc}, {}, {0}, {0}}), HasSubstr("between_steps"));
}

TEST_F(StepFile, AUseOfNoStorageIsRefused)
{
    StepTraceBuilder builder;
    builder.mark(Mark::stepBegin);
    builder.use(StorageId(7), 5);
    EXPECT_THAT(builder.finish().error().message,
                HasSubstr("row 0 of stream_events uses a storage that does not exist"));
}

TEST_F(StepFile, ACollectiveOfNoGroupAndARankOutsideOfItsJobAreRefused)
{
    StepTraceBuilder builder;
    builder.mark(Mark::stepBegin);
    const OpId op = builder.beginOp({builder.string("c10d.barrier.default"), {}, {}, {}, {}, Phase::forward});
    builder.collective(op, {.kind = CollectiveKind::barrier});
    EXPECT_THAT(builder.finish().error().message, HasSubstr("row 0 of collectives.group is not an id in range"));

    StepTraceBuilder rank;
    rank.info.distributed = RankInfo{8, 8, 8};
    rank.mark(Mark::stepBegin);
    EXPECT_THAT(rank.finish().error().message, HasSubstr("rank 8 of 8, 8 a node, is no rank of a job"));
}

TEST_F(StepFile, WritingReplacesTheFileAndKeepsItsPermissions)
{
    ASSERT_TRUE(writeStepTrace(*makeSyntheticStep(), path_));
    std::filesystem::permissions(path_, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
    const auto before = readStepTrace(path_);
    ASSERT_TRUE(before);
    ASSERT_TRUE(writeStepTrace(*makeSyntheticStep(tiny()), path_));
    EXPECT_EQ(std::filesystem::status(path_).permissions(),
              std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
    EXPECT_EQ((*readStepTrace(path_))->calls.size(), 12U);
    // What was open stays whole: the old file lives as long as its mapping.
    EXPECT_EQ((*before)->calls.size(), 39U);
    EXPECT_TRUE(validate(**before));
}

TEST_F(StepFile, WritingThroughALinkReplacesTheFileBehindIt)
{
    std::filesystem::create_symlink("step.hrs", folder_.path() / "link.hrs");
    ASSERT_TRUE(writeStepTrace(*makeSyntheticStep(tiny()), path_));
    ASSERT_TRUE(writeStepTrace(*makeSyntheticStep(), folder_.path() / "link.hrs"));
    EXPECT_TRUE(std::filesystem::is_symlink(folder_.path() / "link.hrs"));
    EXPECT_EQ((*readStepTrace(path_))->calls.size(), 39U);
}

TEST_F(StepFile, AFolderThatIsNotThereIsNamed)
{
    const Status status = writeStepTrace(*makeSyntheticStep(tiny()), folder_.path() / "no" / "step.hrs");
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().kind, ErrorKind::badInput);
    EXPECT_THAT(status.error().message,
                AllOf(HasSubstr("cannot write"), EndsWith("no/step.hrs: No such file or directory")));
}

TEST_F(StepFile, AReadOnlyFolderIsNamedAndStaysEmpty)
{
    constexpr uid_t nobody = 65534;
    const uid_t user = ::geteuid();
    std::filesystem::permissions(folder_.path(), std::filesystem::perms(0555));
    if (user == 0 && ::seteuid(nobody) != 0)
        GTEST_SKIP() << "root may write everywhere, and cannot become someone else here";
    const Status status = writeStepTrace(*makeSyntheticStep(tiny()), path_);
    if (user == 0) {
        ASSERT_EQ(::seteuid(user), 0);
    }
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().kind, ErrorKind::badInput);
    EXPECT_THAT(status.error().message, EndsWith("step.hrs: Permission denied"));
    EXPECT_THAT(filesIn(folder_.path()), ElementsAre());
}

TEST_F(StepFile, AFullDiskLeavesTheOldFileAndNothingElse)
{
    ASSERT_TRUE(writeStepTrace(*makeSyntheticStep(tiny()), path_));
    rlimit before{};
    ::getrlimit(RLIMIT_FSIZE, &before);
    const rlimit small{4096, before.rlim_max};
    std::signal(SIGXFSZ, SIG_IGN);
    ::setrlimit(RLIMIT_FSIZE, &small);
    const Status status = writeStepTrace(*makeSyntheticStep(), path_);
    ::setrlimit(RLIMIT_FSIZE, &before);
    std::signal(SIGXFSZ, SIG_DFL);

    ASSERT_FALSE(status);
    EXPECT_THAT(status.error().message, EndsWith("step.hrs: File too large"));
    EXPECT_THAT(filesIn(folder_.path()), ElementsAre("step.hrs"));
    EXPECT_EQ((*readStepTrace(path_))->calls.size(), 12U);
}

TEST_F(StepFile, WhatIsNotAFileIsRefused)
{
    const auto missing = readStepTrace(path_);
    ASSERT_FALSE(missing);
    EXPECT_EQ(missing.error().message, "cannot open " + path_.string() + ": No such file or directory; check the name");
    const auto directory = readStepTrace(folder_.path());
    ASSERT_FALSE(directory);
    EXPECT_EQ(directory.error().message,
              "cannot open " + folder_.path().string()
                  + ": expected a regular file, but found a folder: name a file in the folder");
    const Status status = writeStepTrace(*makeSyntheticStep(tiny()), "/dev/null");
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().message, "cannot write /dev/null: not a regular file");
}

TEST(StepFormat, AForeignFileIsRefused)
{
    for (const std::string_view content : {"", "{", "{\"version\": 1, \"columns\": []}"}) {
        const StepBytes bytes(std::as_bytes(std::span(content)));
        EXPECT_EQ(openError(bytes), "step.hrs is not a step file: expected the signature of step.hrs at offset 0");
    }
}

TEST(StepFormat, ANewerFileSaysSo)
{
    StepBytes bytes(*makeSyntheticStep(tiny()));
    bytes.header().version = 2;
    bytes.sign();
    EXPECT_EQ(openError(bytes),
              "step.hrs was written by a newer Headroom: the file has format 2 at offset 8, expected at most 1");
}

TEST(StepFormat, TruncationAtEverySectionIsNamed)
{
    const StepBytes whole(*makeSyntheticStep(tiny()));
    ASSERT_EQ(openError(whole), "no error");
    std::vector<std::size_t> ends{8, 32, 64, 100};
    for (const stepformat::Section& section : whole.sections()) {
        ends.push_back(section.offset);
        ends.push_back(section.offset + 1);
    }
    ends.push_back(whole.size() - 1);
    for (const std::size_t end : ends) {
        const std::size_t expected = end < 64 ? 64 : whole.size();
        EXPECT_EQ(openError(StepBytes(whole.bytes().first(end))),
                  "step.hrs is truncated: the file ends at offset " + std::to_string(end) + ", expected "
                      + std::to_string(expected) + " bytes");
    }
}

TEST(StepFormat, ATailIsDamage)
{
    StepBytes bytes(*makeSyntheticStep(tiny()));
    const std::size_t end = bytes.size();
    bytes.append(7);
    EXPECT_EQ(openError(bytes),
              "step.hrs is damaged: the file goes on at offset " + std::to_string(end) + ", expected the end there");
}

TEST(StepFormat, EveryFlippedByteIsFound)
{
    StepBytes bytes(*makeSyntheticStep(tiny()));
    for (std::size_t at = 0; at < bytes.size(); ++at) {
        bytes.mutableBytes()[at] ^= std::byte{0x20};
        ASSERT_NE(openError(bytes), "no error") << "offset " << at;
        bytes.mutableBytes()[at] ^= std::byte{0x20};
    }
    EXPECT_EQ(openError(bytes), "no error");
}

TEST(StepFormat, DamageNamesTheSectionAndItsOffset)
{
    StepBytes bytes(*makeSyntheticStep(tiny()));
    const stepformat::Section ms = bytes.section("ops.ms");
    bytes.mutableBytes()[ms.offset + 3] ^= std::byte{1};
    EXPECT_EQ(openError(bytes),
              "step.hrs is damaged: section ops.ms at offset " + std::to_string(ms.offset)
                  + " differs from the checksum");
}

TEST(StepFormat, ASectionOutsideTheFileIsNamed)
{
    StepBytes bytes(*makeSyntheticStep(tiny()));
    bytes.section("events.kind").count = std::uint64_t{1} << 62;
    bytes.sign();
    EXPECT_THAT(openError(bytes), HasSubstr("has 4611686018427387904 elements, expected all elements inside the file"));

    StepBytes moved(*makeSyntheticStep(tiny()));
    moved.section("events.kind").offset = 64;
    moved.sign();
    EXPECT_THAT(openError(moved), HasSubstr("section events.kind begins at offset 64 (table entry at offset"));
}

TEST(StepFormat, AMissingSectionIsNamed)
{
    StepBytes bytes(*makeSyntheticStep(tiny()));
    std::memcpy(bytes.section("packs.op").name.data(), "packs.xx", 8);
    bytes.sign();
    EXPECT_THAT(openError(bytes), HasSubstr("expected a section packs.op in the section table at offset 64"));
}

TEST(StepFormat, ASectionOfAnotherTypeIsNamed)
{
    StepBytes bytes(*makeSyntheticStep(tiny()));
    bytes.section("ops.ms").type = stepformat::ElementType::i64;
    bytes.sign();
    EXPECT_THAT(openError(bytes), HasSubstr("has elements of type 4 and 8 bytes, expected type 5 and 8"));
}

TEST(StepFormat, AnIdOutOfRangeIsNamedThoughItsChecksumIsRight)
{
    StepBytes bytes(*makeSyntheticStep(tiny()));
    const std::uint32_t beyond = 1000000;
    std::memcpy(bytes.mutableBytes().data() + bytes.section("calls.module").offset + 8, &beyond, 4);
    bytes.sign();
    EXPECT_EQ(openError(bytes), "step.hrs is damaged: not a valid step: row 2 of calls.module is not an id in range");
}

TEST(StepFormat, InfoOfAnotherTypeIsNamed)
{
    StepBytes bytes(*makeSyntheticStep(tiny()));
    const stepformat::Section info = bytes.section("info");
    const std::string_view text(reinterpret_cast<const char*>(bytes.bytes().data()) + info.offset, info.count);
    const std::string_view key = "\"hold_output\":";
    const std::size_t at = text.find(key);
    ASSERT_NE(at, std::string_view::npos);
    std::memcpy(bytes.mutableBytes().data() + info.offset + at + key.size(), "12345", 5);
    bytes.sign();
    EXPECT_EQ(openError(bytes),
              "step.hrs is damaged: section info at offset " + std::to_string(info.offset)
                  + ": hold_output is 12345: expected true or false");

    bytes.mutableBytes()[info.offset] = std::byte{'x'};
    bytes.sign();
    EXPECT_THAT(openError(bytes), EndsWith(": not JSON at line 1, column 1: a JSON document was expected"));
}

/// With checksums left out, so that the changes reach the checks behind them. Whatever opens must be a valid step.
TEST(StepFormat, RandomChangesNeverReadOutOfBounds)
{
    const StepBytes whole(*makeSyntheticStep(tiny()));
    std::mt19937 random(20260722);
    int opened = 0;
    for (int round = 0; round < 20000; ++round) {
        StepBytes bytes = whole;
        const int changes = 1 + static_cast<int>(random() % 4);
        for (int i = 0; i < changes; ++i) {
            const auto to = static_cast<std::byte>(random() % 3 == 0 ? 0xff : random());
            bytes.mutableBytes()[random() % bytes.size()] = to;
        }
        const auto result = bytes.open(stepformat::Checksums::ignore);
        if (!result) {
            ASSERT_FALSE(result.error().message.empty());
            continue;
        }
        ++opened;
        ASSERT_TRUE(validate(**result));
        ASSERT_TRUE(predict(**result, {}));
        const auto region = predict(**result, {{ModuleId(static_cast<std::uint32_t>(random() % 13)), {}}});
        // A change may have made of it what cannot be checkpointed.
        ASSERT_TRUE(region || region.error().message.find("cannot be checkpointed") != std::string::npos)
            << region.error().message;
    }
    EXPECT_GT(opened, 1000); // changes of fillings, of text and of byte counts are harmless
}

TEST_F(StepFile, AnOpenStepStaysAsItWasReadWhateverIsWrittenIntoItsFile)
{
    const StepTracePtr step = makeSyntheticStep(tiny());
    ASSERT_TRUE(writeStepTrace(*step, path_).ok());
    const Bytes peak = predict(*step, {}).value().peak;
    for (const std::string& content : {std::string(), std::string(200'000, '\xff'), std::string("not a step")}) {
        ASSERT_TRUE(writeStepTrace(*step, path_).ok());
        const Result<StepTracePtr> open = readStepTrace(path_);
        ASSERT_TRUE(open.ok()) << open.error().message;
        writeInPlace(path_, content);
        EXPECT_TRUE(validate(**open).ok());
        EXPECT_EQ(predict(**open, {}).value().peak, peak);
    }
}

TEST_F(StepFile, AFileThatIsBeingWrittenIsReadWholeOrRefused)
{
    SyntheticOptions large = tiny();
    large.blocks = 40;
    ASSERT_TRUE(writeStepTrace(*makeSyntheticStep(large), path_).ok());
    const std::string longer = contentOf(path_);
    ASSERT_TRUE(writeStepTrace(*makeSyntheticStep(tiny()), path_).ok());
    const std::string shorter = contentOf(path_);
    std::atomic<bool> done = false;
    std::thread writer([&] {
        for (bool turn = false; !done; turn = !turn)
            writeInPlace(path_, turn ? shorter : longer);
    });
    for (int i = 0; i < 300; ++i) {
        const Result<StepTracePtr> open = readStepTrace(path_);
        if (open)
            EXPECT_TRUE(validate(**open).ok());
        else
            EXPECT_EQ(open.error().kind, ErrorKind::badInput) << open.error().message;
    }
    done = true;
    writer.join();
}

TEST_F(StepFile, AMappedFileThatIsCutOffReadsAsZerosAndSaysSo)
{
    writeInPlace(path_, std::string(100'000, 'x'));
    const auto file = MappedFile::open(path_);
    ASSERT_TRUE(file.ok());
    EXPECT_TRUE((*file)->unchanged().ok());
    const auto count = [&] { return std::ranges::count((*file)->bytes(), std::byte{'x'}); };
    EXPECT_EQ(count(), 100'000);
    std::filesystem::resize_file(path_, 10'000);
    EXPECT_EQ(count(), 10'000);
    EXPECT_THAT((*file)->unchanged().error().message,
                EndsWith("step.hrs changed while Headroom read the file: try again when the program that writes the "
                         "file has ended"));
}

TEST(Checksum, IsXxh64)
{
    const auto of = [](std::string_view text) { return checksum(std::as_bytes(std::span(text))); };
    EXPECT_EQ(of(""), 0xEF46DB3751D8E999U);
    EXPECT_EQ(of("a"), 0xD24EC4F1A98C6E5BU);
    EXPECT_EQ(of("abc"), 0x44BC2CF5AD770999U);
    EXPECT_EQ(of("Nobody inspects the spammish repetition"), 0xFBCEA83C8A378BF1U);
}
