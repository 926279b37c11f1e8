// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
// Files of tests/data/snapshots are made by make_snapshot.py there, whose allocator is not the one of Headroom.
// HEADROOM_TEST_SNAPSHOTS names a folder with recordings of real GPUs.
#include "core/snapshot/snapshot.h"

#include "core/allocator/replay.h"
#include "core/predict/predict.h"
#include "core/snapshot/device_history.h"
#include "core/snapshot/import.h"
#include "core/snapshot/regions.h"
#include "core/trace/out_of_memory.h"
#include "core/trace/step_file.h"
#include "core/trace/step_trace_builder.h"
#include "tests/core/recorded_program.h"
#include "tests/core/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <stop_token>

namespace headroom {
namespace {

using testing::Contains;
using testing::HasSubstr;
using Action = Snapshot::Action;

std::string data(const std::string& name)
{
    return HEADROOM_TEST_DATA "/snapshots/" + name;
}

SnapshotPtr snapshotOf(const std::string& name, SnapshotRange range = {})
{
    Result<SnapshotPtr> snapshot = readSnapshot(std::filesystem::path(data(name)), range);
    EXPECT_TRUE(snapshot.ok()) << snapshot.error().message;
    return snapshot.ok() ? *snapshot : std::make_shared<Snapshot>();
}

DeviceHistory historyOf(const Snapshot& snapshot)
{
    Result<DeviceHistory> history = deviceHistory(snapshot, busiestDevice(snapshot));
    EXPECT_TRUE(history.ok()) << history.error().message;
    return history.ok() ? *history : DeviceHistory();
}

StepTracePtr stepOfFile(const std::string& name, SnapshotRange range = {})
{
    const SnapshotPtr snapshot = snapshotOf(name, range);
    Result<StepTracePtr> step = stepOf(*snapshot, historyOf(*snapshot), 0, name);
    EXPECT_TRUE(step.ok()) << step.error().message;
    return step.ok() ? *step : std::make_shared<StepTrace>();
}

std::string bytesOf(const std::string& path)
{
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

Result<SnapshotPtr> readText(std::string_view text)
{
    return readSnapshot(std::as_bytes(std::span(text)), nullptr, "file.pickle");
}

/// Reserved after every event, and the place of every block.
void expectSameAsRecorded(const Snapshot& snapshot)
{
    const DeviceHistory history = historyOf(snapshot);
    const SnapshotReplay replay = replaySnapshot(history);
    EXPECT_GT(replay.events, 0U);
    EXPECT_EQ(replay.sameReserved, replay.events) << "event " << replay.firstDifference.value_or(0) << ": recorded "
                                                  << replay.recordedThen << ", simulated " << replay.simulatedThen;
    EXPECT_EQ(replay.samePlace, replay.allocations);
    EXPECT_EQ(replay.simulatedPeak, replay.recordedPeak);
}

class EveryFile : public testing::TestWithParam<const char*>
{
};

TEST_P(EveryFile, ReplaysToTheRecordedReservedBytesAtEveryEvent)
{
    expectSameAsRecorded(*snapshotOf(GetParam()));
}

TEST_P(EveryFile, IsAStepThatAStepFileHolds)
{
    const StepTracePtr step = stepOfFile(GetParam());
    ASSERT_TRUE(validate(*step).ok());
    EXPECT_EQ(step->info.source, "snapshot");
    const TemporaryFolder folder;
    ASSERT_TRUE(writeStepTrace(*step, folder.path() / "step.hrs").ok());
    const Result<StepTracePtr> again = readStepTrace(folder.path() / "step.hrs");
    ASSERT_TRUE(again.ok()) << again.error().message;
    EXPECT_EQ((*again)->info.source, "snapshot");
    EXPECT_TRUE(std::ranges::equal((*again)->reserved.bytes, step->reserved.bytes));
    EXPECT_TRUE(std::ranges::equal((*again)->reserved.event, step->reserved.event));
    EXPECT_TRUE(std::ranges::equal((*again)->storages.stream, step->storages.stream));
    EXPECT_TRUE(std::ranges::equal((*again)->outOfMemory.op, step->outOfMemory.op));
    EXPECT_TRUE(std::ranges::equal((*again)->outOfMemory.requested, step->outOfMemory.requested));
    EXPECT_TRUE(std::ranges::equal((*again)->outOfMemory.deviceFree, step->outOfMemory.deviceFree));
    EXPECT_TRUE(std::ranges::equal((*again)->outOfMemory.pieces, step->outOfMemory.pieces));
    EXPECT_TRUE(std::ranges::equal((*again)->freePieces.bytes, step->freePieces.bytes));
    EXPECT_TRUE(std::ranges::equal((*again)->freePieces.beside, step->freePieces.beside));
    EXPECT_GT(step->reserved.size(), 0U);
    EXPECT_THAT(step->storages.stream.rows, Contains(1U)) << "copies are made on a stream of their own";
}

TEST_P(EveryFile, WhatIfKeepsItsBytes)
{
    const StepTracePtr step = stepOfFile(GetParam());
    const Result<Timeline> timeline = predict(*step, {});
    ASSERT_TRUE(timeline.ok()) << timeline.error().message;
    for (const char* settings :
         {"", "expandable_segments:True", "max_split_size_mb:20", "roundup_power2_divisions:4"}) {
        const AllocatorRun run = simulateAllocator(*step, *timeline, *withAllocatorSettings({}, settings));
        ASSERT_EQ(run.samples.size(), timeline->changes.size()) << settings;
        EXPECT_GE(run.stats.reservedPeak, timeline->peak) << settings;
        EXPECT_LT(run.stats.reservedPeak, 2 * timeline->peak) << settings;
    }
}

INSTANTIATE_TEST_SUITE_P(Files, EveryFile,
                         testing::Values("protocol2.pickle", "protocol3.pickle", "protocol4.pickle", "protocol5.pickle",
                                         "late.pickle", "expandable.pickle", "full.pickle", "two_devices.pickle"));

/// What PyTorch records: every action is in one of the files at least.
TEST(SnapshotFiles, HoldEveryAction)
{
    std::map<Action, std::size_t> counts;
    for (const char* name : {"late.pickle", "expandable.pickle", "full.pickle", "two_devices.pickle"}) {
        const SnapshotPtr snapshot = snapshotOf(name);
        for (const auto& trace : snapshot->traces)
            for (const Snapshot::Event& event : trace)
                ++counts[event.action];
    }
    for (const Action action :
         {Action::alloc, Action::freeRequested, Action::freeCompleted, Action::segmentAlloc, Action::segmentFree,
          Action::segmentMap, Action::segmentUnmap, Action::outOfMemory, Action::snapshot, Action::other})
        EXPECT_GT(counts[action], 0U) << "action " << static_cast<int>(action);
}

TEST(SnapshotFiles, SeveralDevicesAreOfferedAndEachOpens)
{
    const SnapshotPtr snapshot = snapshotOf("two_devices.pickle");
    const std::vector<SnapshotDevice> devices = devicesOf(*snapshot);
    ASSERT_EQ(devices.size(), 2U);
    EXPECT_EQ(devices[0].events + devices[1].events, snapshot->eventCount);
    EXPECT_GT(devices[0].events, devices[1].events);
    for (const SnapshotDevice& device : devices) {
        const Result<ImportedSnapshot> imported
            = importSnapshot(snapshot, data("two_devices.pickle"), {{}, device.device});
        ASSERT_TRUE(imported.ok()) << imported.error().message;
        EXPECT_EQ(imported->history.events.size(), device.events);
        EXPECT_EQ(imported->step->info.device, "cuda:" + std::to_string(device.device));
        EXPECT_EQ(std::ranges::max(imported->step->reserved.bytes), device.reservedPeak);
        const SnapshotReplay replay = replaySnapshot(imported->history);
        EXPECT_EQ(replay.sameReserved, replay.events);
        EXPECT_EQ(replay.recordedPeak, device.reservedPeak);
    }
}

/// A part is the same, whether the rest was not read or was read and left out.
TEST(SnapshotFiles, APartOfOneThatWasReadIsThePartThatIsRead)
{
    const ImportRequest part{{4.0, 9.5}, 0};
    const Result<ImportedSnapshot> read = importSnapshot(data("full.pickle"), part);
    const Result<ImportedSnapshot> chosen = importSnapshot(snapshotOf("full.pickle"), data("full.pickle"), part);
    ASSERT_TRUE(read.ok() && chosen.ok());
    ASSERT_EQ(chosen->history.events.size(), read->history.events.size());
    EXPECT_LT(chosen->history.events.size(), chosen->snapshot->eventCount);
    EXPECT_EQ(chosen->history.reserved, read->history.reserved);
    const Timeline a = *predict(*read->step, {});
    const Timeline b = *predict(*chosen->step, {});
    EXPECT_EQ(a.start, b.start);
    EXPECT_EQ(a.peak, b.peak);
    EXPECT_EQ(a.durationMs, b.durationMs);
}

TEST(SnapshotFiles, ReadingTellsHowFarItIsAndCanBeStopped)
{
    std::vector<double> shares;
    const Result<ImportedSnapshot> whole
        = importSnapshot(data("full.pickle"), {}, {[&](double share) { shares.push_back(share); }, {}});
    ASSERT_TRUE(whole.ok()) << whole.error().message;
    ASSERT_FALSE(shares.empty());
    EXPECT_TRUE(std::ranges::is_sorted(shares));
    EXPECT_LE(shares.back(), 1);
    std::stop_source stopped;
    stopped.request_stop();
    const Result<ImportedSnapshot> none = importSnapshot(data("full.pickle"), {}, {{}, stopped.get_token()});
    ASSERT_FALSE(none.ok());
    EXPECT_EQ(none.error().message, stoppedReading().message);
    // And in the middle of a file that is longer than one look.
    std::string longer = "\x80\x04]";
    longer += "("; // a list of very many numbers
    longer.append(6 << 20, 'N');
    longer += "e.";
    std::size_t asked = 0;
    const Result<SnapshotPtr> cut
        = readSnapshot(std::as_bytes(std::span(longer)), nullptr, "long.pickle", {}, [&](std::size_t position) {
              asked = position;
              return false;
          });
    ASSERT_FALSE(cut.ok());
    EXPECT_EQ(cut.error().message, stoppedReading().message);
    EXPECT_GE(asked, std::size_t{4} << 20);
}

TEST(OutOfMemory, IsAnInstantOfTheStepWithItsReason)
{
    const Result<ImportedSnapshot> imported = importSnapshot(data("full.pickle"));
    ASSERT_TRUE(imported.ok()) << imported.error().message;
    const auto recorded = std::ranges::find(imported->history.events, Action::outOfMemory, &Snapshot::Event::action);
    ASSERT_NE(recorded, imported->history.events.end());
    const std::vector<OutOfMemory> found = outOfMemoryEvents(*imported->step);
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0].requested, recorded->size);
    EXPECT_EQ(found[0].deviceFree, static_cast<Bytes>(recorded->address));
    EXPECT_NEAR(found[0].ms,
                static_cast<double>(recorded->microseconds - imported->history.events.front().microseconds) / 1000,
                1e-6);
    EXPECT_EQ(found[0].reserved + found[0].deviceFree, 600 * MiB) << "what the card has";
    EXPECT_LE(found[0].active, found[0].reserved);
    EXPECT_THAT(whyOutOfMemory(found[0]), HasSubstr("asked for 1.17 GiB, and the device had"));
    EXPECT_TRUE(outOfMemoryEvents(*stepOfFile("protocol4.pickle")).empty());
}

TEST(OutOfMemory, WhatAutogradHoldsIsInUseAndTheContextIsNot)
{
    StepTraceBuilder builder;
    builder.info.measured = MeasuredStep();
    builder.alloc(500 * MiB, Category::nonPyTorch, {});
    builder.mark(Mark::stepBegin);
    const StorageId saved = builder.alloc(4 * MiB, Category::activation, {});
    const PackId pack = builder.pack(saved, {});
    builder.free(saved);
    const StorageId grown = builder.alloc(1 * MiB, Category::activation, {});
    builder.resize(grown, 2 * MiB);
    const auto fail = [&] { builder.endOp(builder.outOfMemory({}, 8 * MiB, 1 * MiB), {}); };
    fail();
    builder.release(pack);
    fail();
    const Result<StepTracePtr> step = builder.finish();
    ASSERT_TRUE(step.ok()) << step.error().message;
    const std::vector<OutOfMemory> found = outOfMemoryEvents(**step);
    ASSERT_EQ(found.size(), 2U);
    EXPECT_EQ(found[0].active, 6 * MiB);
    EXPECT_EQ(found[1].active, 2 * MiB);
}

/// Files from before the columns say the numbers in the op's name.
TEST(OutOfMemory, IsReadFromTheNameOfAnOlderFile)
{
    StepTraceBuilder builder;
    builder.mark(Mark::stepBegin);
    for (const char* name : {"aten.add.Tensor", "out of memory (asked for 8388608 bytes, 1048576 free on the device)",
                             "out of memory (asked for many bytes, 1048576 free on the device)"}) {
        StepTraceBuilder::Op op;
        op.name = builder.string(name);
        builder.endOp(builder.beginOp(op), {});
    }
    const Result<StepTracePtr> step = builder.finish();
    ASSERT_TRUE(step.ok()) << step.error().message;
    const std::vector<OutOfMemory> found = outOfMemoryEvents(**step);
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0].op, OpId(1));
    EXPECT_EQ(found[0].requested, 8 * MiB);
    EXPECT_EQ(found[0].deviceFree, 1 * MiB);
}

/// A snapshot with one stack, given outermost first as pairs (function, file).
StackMeaning meaningOf(const std::vector<std::pair<std::string_view, std::string_view>>& frames)
{
    Snapshot snapshot;
    for (const auto& [function, file] : frames) {
        const auto strings = static_cast<Snapshot::Index>(snapshot.strings.size());
        snapshot.strings.insert(snapshot.strings.end(), {function, file});
        snapshot.stackFrames.insert(snapshot.stackFrames.begin(), static_cast<Snapshot::Index>(snapshot.frames.size()));
        snapshot.frames.push_back({strings, strings + 1, 7});
    }
    snapshot.stackFirst.push_back(static_cast<Snapshot::Index>(snapshot.stackFrames.size()));
    return stackMeaning(snapshot, 0);
}

TEST(Snapshot, ParametersMadeOnTheDeviceAreParameters)
{
    const std::string_view torch = "/usr/lib/python3/dist-packages/torch/";
    const std::string linear = std::string(torch) + "nn/modules/linear.py";
    const std::string module = std::string(torch) + "nn/modules/module.py";
    const std::string device = std::string(torch) + "utils/_device.py";
    // Linear(…, device="cuda"), also under torch.device("cuda"), and a tensor of the program's own constructor.
    EXPECT_TRUE(meaningOf({{"<module>", "train.py"}, {"__init__", "model.py"}, {"__init__", linear}}).makesParameters);
    EXPECT_TRUE(
        meaningOf({{"main", "train.py"}, {"__init__", linear}, {"__torch_function__", device}}).makesParameters);
    EXPECT_TRUE(
        meaningOf({{"main", "train.py"}, {"__init__", "model.py"}, {"__torch_function__", device}}).makesParameters);
    // A trainer that trains in its constructor, a batch, a module that another's forward makes.
    EXPECT_FALSE(meaningOf({{"__init__", "trainer.py"}, {"train", "trainer.py"}}).makesParameters);
    EXPECT_FALSE(meaningOf({{"<module>", "train.py"}}).makesParameters);
    EXPECT_FALSE(
        meaningOf({{"main", "train.py"}, {"_call_impl", module}, {"forward", "model.py"}, {"__init__", "mask.py"}})
            .makesParameters);
}

TEST(OutOfMemory, FragmentationIsNamed)
{
    OutOfMemory event;
    event.requested = 2 * GiB;
    event.deviceFree = GiB;
    event.reserved = 20 * GiB;
    event.active = 15 * GiB;
    EXPECT_EQ(whyOutOfMemory(event),
              "The program asked for 2.00 GiB, and the device had 1.00 GiB left beside the 20.00 GiB that PyTorch had "
              "reserved, of which 5.00 GiB were not in use, but in no single free block that was large enough: "
              "fragmentation.");
    event.pieces = 12;
    for (const Bytes piece : {512 * MiB, 256 * MiB, 256 * MiB, 100 * MiB, 50 * MiB})
        event.largest.push_back({piece, {}});
    EXPECT_THAT(
        whyOutOfMemory(event),
        HasSubstr("not in use, but in pieces of at most 512.00 MiB (512.00 MiB, 2 × 256.00 MiB, 100.00 MiB and 8 "
                  "more): fragmentation."));
    event.pieces = 1;
    event.largest.resize(1);
    EXPECT_THAT(whyOutOfMemory(event), HasSubstr("not in use, but in a piece of 512.00 MiB: fragmentation."));
    event.active = 19 * GiB;
    EXPECT_THAT(
        whyOutOfMemory(event),
        HasSubstr("of which 1.00 GiB were not in use, but in a piece of 512.00 MiB, enough together with what the "
                  "device had left: fragmentation."));
    event.active += MiB;
    EXPECT_THAT(whyOutOfMemory(event), HasSubstr("of which 19.00 GiB were in use."));
    event.reserved = 0;
    EXPECT_EQ(whyOutOfMemory(event), "The program asked for 2.00 GiB, and the device had 1.00 GiB left.");
}

TEST(Snapshot, RecordingsOfRealGpusReplayToTheirReservedBytes)
{
    const char* folder = std::getenv("HEADROOM_TEST_SNAPSHOTS");
    if (!folder)
        GTEST_SKIP()
            << "HEADROOM_TEST_SNAPSHOTS names no folder with .pickle files of torch.cuda.memory._dump_snapshot";
    int files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        if (entry.path().extension() != ".pickle")
            continue;
        SCOPED_TRACE(entry.path().string());
        const Result<SnapshotPtr> snapshot = readSnapshot(entry.path());
        ASSERT_TRUE(snapshot.ok()) << snapshot.error().message;
        expectSameAsRecorded(**snapshot);
        ++files;
    }
    EXPECT_GT(files, 0);
}

TEST(Snapshot, HoldsWhatPythonWrote)
{
    const SnapshotPtr snapshot = snapshotOf("protocol4.pickle");
    EXPECT_EQ(snapshot->eventCount, 529U);
    ASSERT_EQ(snapshot->traces.size(), 2U);
    EXPECT_TRUE(snapshot->traces[1].empty());
    EXPECT_EQ(snapshot->streams, (std::vector<std::uint64_t>{0, 94012}));
    const Snapshot::Event& first = snapshot->traces[0].front();
    EXPECT_EQ(first.action, Action::segmentAlloc);
    EXPECT_EQ(first.address, 0x7F0000000000U);
    const std::span stack = snapshot->stack(first.stack);
    ASSERT_EQ(stack.size(), 16U);
    EXPECT_EQ(snapshot->text(snapshot->frames[stack[0]].function), "convert");
    EXPECT_EQ(snapshot->frames[stack[0]].line, 1371);
    EXPECT_EQ(snapshot->text(snapshot->frames[stack[15]].function), "<module>");
    EXPECT_EQ(snapshot->annotations.size(), 2U);
    Bytes active = 0;
    for (const Snapshot::Block& block : snapshot->blocks)
        active += block.active ? block.size : 0;
    EXPECT_GT(active, 0);
}

TEST(Snapshot, StacksAndTheirListsAreKeptOnce)
{
    const SnapshotPtr snapshot = snapshotOf("protocol4.pickle");
    std::set<std::vector<Snapshot::Index>> stacks;
    for (std::size_t i = 0; i + 1 < snapshot->stackFirst.size(); ++i) {
        const std::span stack = snapshot->stack(static_cast<Snapshot::Index>(i));
        EXPECT_TRUE(stacks.emplace(stack.begin(), stack.end()).second);
    }
}

TEST(Snapshot, ARangeOfTimeBeginsWithWhatWasThere)
{
    const SnapshotPtr whole = snapshotOf("protocol4.pickle");
    const DeviceHistory all = historyOf(*whole);
    const double last = static_cast<double>(all.events.back().microseconds - whole->firstMicroseconds) / 1000;
    const SnapshotPtr part = snapshotOf("protocol4.pickle", {last / 3, last / 2});
    const DeviceHistory history = historyOf(*part);
    ASSERT_GT(history.events.size(), 20U);
    ASSERT_LT(history.events.size(), all.events.size() / 3);
    EXPECT_EQ(part->eventCount, whole->eventCount);
    // Forward from the beginning comes to the same state as undone from the end.
    ReservedBytes reserved(all.reserved);
    std::set<std::uint64_t> live;
    for (const auto& [address, block] : all.blocks)
        live.insert(address);
    for (const Snapshot::Event& event : all.events) {
        if (event.microseconds >= history.events.front().microseconds)
            break;
        reserved.apply(event);
        if (event.action == Action::alloc)
            live.insert(event.address);
        else if (event.action == Action::freeCompleted)
            live.erase(event.address);
    }
    EXPECT_EQ(history.reserved, reserved.bytes());
    std::set<std::uint64_t> undone;
    for (const auto& [address, block] : history.blocks)
        undone.insert(address);
    EXPECT_EQ(undone, live);
    expectSameAsRecorded(*part);
}

TEST(Snapshot, AnEmptyRangeIsRefused)
{
    EXPECT_FALSE(readSnapshot(std::filesystem::path(data("late.pickle")), {5, 5}).ok());
    const SnapshotPtr after = snapshotOf("late.pickle", {1e9, 2e9});
    EXPECT_TRUE(historyOf(*after).events.empty());
}

TEST(SnapshotStep, TimesAreTheRecordedOnes)
{
    const SnapshotPtr snapshot = snapshotOf("protocol4.pickle");
    const DeviceHistory history = historyOf(*snapshot);
    const StepTracePtr step = stepOfFile("protocol4.pickle");
    const Result<Timeline> timeline = predict(*step, {});
    ASSERT_TRUE(timeline.ok());
    const auto micros = history.events.back().microseconds - history.events.front().microseconds;
    EXPECT_NEAR(timeline->durationMs, static_cast<double>(micros) / 1000, 1e-6);
    // Each change of live memory stands at its event's time.
    std::size_t change = 0;
    std::set<std::uint64_t> live;
    for (const Snapshot::Event& event : history.events) {
        const bool made = event.action == Action::alloc;
        if (!made && !(event.action == Action::freeCompleted && live.contains(event.address)))
            continue;
        made ? static_cast<void>(live.insert(event.address)) : static_cast<void>(live.erase(event.address));
        ASSERT_LT(change, timeline->changes.size());
        EXPECT_NEAR(timeline->changes[change].ms,
                    static_cast<double>(event.microseconds - history.events.front().microseconds) / 1000, 1e-6);
        EXPECT_EQ(timeline->changes[change].delta > 0, made);
        ++change;
    }
    EXPECT_EQ(change, timeline->changes.size());
}

TEST(SnapshotStep, FramesSayOpsModulesAndPhases)
{
    const StepTracePtr step = stepOfFile("protocol4.pickle");
    std::set<std::string> ops;
    std::set<std::string> modules;
    for (std::uint32_t row = 0; row < step->ops.size(); ++row) {
        const OpId op(row);
        ops.insert(std::string(phaseName(step->ops.phase[op])) + " " + std::string(step->opName(op)) + " "
                   + std::string(step->strings[step->ops.node[op]]));
    }
    for (std::uint32_t row = 0; row < step->modules.size(); ++row)
        modules.emplace(step->moduleFqn(ModuleId(row)));
    EXPECT_THAT(ops, Contains("forward aten.addmm "));
    EXPECT_THAT(ops, Contains("forward aten._to_copy "));
    EXPECT_THAT(ops, Contains("backward aten.mm AddmmBackward0"));
    EXPECT_THAT(ops, Contains("backward aten.mul.Tensor GeluBackward0"));
    EXPECT_THAT(ops, Contains("optimizer _single_tensor_adam (adam.py:450) "));
    EXPECT_THAT(modules, Contains("Snapshot.model"));
    EXPECT_THAT(modules, Contains("Snapshot.model.model:153.model:91.linear:42"))
        << "the forward at line 153 of the model calls the one at 91, which calls Linear at 42";
}

TEST(SnapshotStep, MetadataNamesModules)
{
    const StepTracePtr step = stepOfFile("protocol5.pickle");
    std::set<std::string> used;
    for (const ModuleId module : step->ops.module)
        used.emplace(step->moduleFqn(module));
    EXPECT_THAT(used, Contains("Snapshot.model.layers.7.part2"));
    EXPECT_THAT(used, Contains("Snapshot")) << "the optimizer runs outside";
}

TEST(SnapshotStep, CategoriesFollowFromPhases)
{
    const StepTracePtr step = stepOfFile("protocol4.pickle");
    std::map<Category, int> counts;
    for (const Category category : step->storages.category)
        ++counts[category];
    EXPECT_EQ(counts[Category::parameter], 24) << "made by Module.to()";
    EXPECT_EQ(counts[Category::optimizer], 48) << "made by the optimizer, and kept";
    EXPECT_GT(counts[Category::activation], 0);
    EXPECT_GT(counts[Category::gradient], 0);
    EXPECT_GT(counts[Category::temporary], 0);
    EXPECT_EQ(counts[Category::other], 0);
}

/// Recordings with settings, full devices and several streams, that begin in the middle.
class Recorded : public testing::TestWithParam<std::tuple<const char*, std::size_t>>
{
};

TEST_P(Recorded, ReplaysToItsReservedBytes)
{
    const auto& [settings, kept] = GetParam();
    RecordedProgram program(settings, 0, 5);
    program.run(4000);
    expectSameAsRecorded(program.snapshot(kept));
}

INSTANTIATE_TEST_SUITE_P(Settings, Recorded,
                         testing::Combine(testing::Values("", "max_split_size_mb:24", "expandable_segments:True",
                                                          "roundup_power2_divisions:8"),
                                          testing::Values(100'000, 3000, 50)));

TEST(Recorded, SegmentsThatWentBackAreFollowed)
{
    for (unsigned seed = 0; seed < 20; ++seed) {
        SCOPED_TRACE(seed);
        RecordedProgram program("", 400 * MiB, seed);
        program.run(3000);
        const Snapshot snapshot = program.snapshot(program.eventCount());
        const auto& events = snapshot.traces[0];
        ASSERT_GT(std::ranges::count(events, Action::segmentFree, &Snapshot::Event::action), 2);
        ASSERT_GT(std::ranges::count(events, Action::outOfMemory, &Snapshot::Event::action), 0);
        expectSameAsRecorded(snapshot);
    }
}

/// The layout follows from the events alone; the allocator tells what it has at each failure.
TEST(Recorded, FreePiecesAreThoseOfTheAllocator)
{
    std::size_t failures = 0;
    std::size_t besides = 0;
    for (const char* settings : {"", "max_split_size_mb:24", "expandable_segments:True", "roundup_power2_divisions:8"})
        for (const std::size_t kept : {std::size_t{100'000}, std::size_t{2000}}) {
            SCOPED_TRACE(std::string(settings) + ", " + std::to_string(kept) + " events");
            RecordedProgram program(settings, 400 * MiB, 3);
            program.run(4000);
            const Snapshot snapshot = program.snapshot(kept);
            const Result<StepTracePtr> step = stepOf(snapshot, historyOf(snapshot), 0, "recorded");
            ASSERT_TRUE(step.ok()) << step.error().message;
            const std::vector<OutOfMemory> found = outOfMemoryEvents(**step);
            ASSERT_LE(found.size(), program.failures().size());
            for (std::size_t i = 0; i < found.size(); ++i) {
                const auto& told = program.failures()[program.failures().size() - found.size() + i];
                ASSERT_EQ(found[i].requested, told.requested);
                std::vector<Bytes> sizes;
                for (const OutOfMemory::Piece& piece : found[i].largest) {
                    sizes.push_back(piece.bytes);
                    besides += piece.beside.valid() ? 1 : 0;
                }
                // A block may become free after the search, by the wait for the other stream.
                const bool isLate = !told.freeBlocks.empty() && told.freeBlocks.front() >= told.size;
                EXPECT_EQ(sizes, isLate ? std::vector<Bytes>() : told.freeBlocks) << "failure " << i;
                EXPECT_EQ(found[i].pieces, isLate ? 0 : told.freeCount) << "failure " << i;
                ++failures;
            }
        }
    EXPECT_GT(failures, 100U);
    EXPECT_GT(besides, 100U);
}

/// One segment of 20 MiB: blocks of 6 and 4 MiB with 5 MiB between, 5 MiB behind; another stream's and a private
/// pool's.
TEST(OutOfMemory, PiecesAreOfTheRequestsStreamAndPool)
{
    Snapshot snapshot;
    snapshot.streams = {0, 7};
    const auto segment = [&](std::uint64_t address, Snapshot::Index stream, std::int64_t pool) {
        Snapshot::Segment added;
        added.address = address;
        added.size = 20 * MiB;
        added.stream = stream;
        added.pool = {0, pool};
        snapshot.segments.push_back(added);
    };
    constexpr std::uint64_t first = 1 << 30;
    segment(first, 0, 0);
    segment(first << 1, 1, 0);
    segment(first << 2, 0, 3);
    for (const auto& [address, size] : {std::pair{first, 6 * MiB}, {first + 11 * MiB, 4 * MiB}}) {
        Snapshot::Block block;
        block.address = address;
        block.size = block.requested = size;
        block.active = true;
        snapshot.segments[0].blocks.push_back(static_cast<Snapshot::Index>(snapshot.blocks.size()));
        snapshot.blocks.push_back(block);
    }
    Snapshot::Event event;
    event.action = Action::outOfMemory;
    event.size = 8 * MiB;
    event.address = MiB;
    event.microseconds = 1;
    snapshot.traces = {{event}};
    snapshot.eventCount = 1;
    const auto failure = [&] {
        const Result<StepTracePtr> step = stepOf(snapshot, historyOf(snapshot), 0, "made");
        EXPECT_TRUE(step.ok()) << step.error().message;
        return std::pair(*step, outOfMemoryEvents(**step).at(0));
    };
    const auto& [step, found] = failure();
    EXPECT_EQ(found.pieces, 2U);
    ASSERT_EQ(found.largest.size(), 2U);
    EXPECT_EQ(found.largest[0].bytes, 5 * MiB);
    ASSERT_TRUE(found.largest[0].beside.valid());
    EXPECT_EQ(step->storages.bytes[found.largest[0].beside], 4 * MiB) << "the smaller neighbour";
    EXPECT_THAT(whyOutOfMemory(found), HasSubstr("in pieces of at most 5.00 MiB (2 × 5.00 MiB): fragmentation."));

    // A piece is large enough, so the request was of another pool.
    snapshot.traces[0][0].size = 4 * MiB;
    EXPECT_EQ(failure().second.pieces, 0U);
    EXPECT_TRUE(failure().second.largest.empty());
}

TEST(SnapshotFile, RefusesToRunAnything)
{
    using namespace std::string_literals;
    for (const std::string& pickle : {"\x80\x02"
                                      "cos\nsystem\nX\x04\x00\x00\x00echo\x85R."s,
                                      "\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x04"
                                      "echo\x85R."s,
                                      "\x80\x02}\x81."s, "\x80\x02Ntb."s, "\x80\x04\x82\x01."s, "\x80\x02NQ."s}) {
        const Result<SnapshotPtr> snapshot = readText(pickle);
        ASSERT_FALSE(snapshot.ok());
        EXPECT_EQ(snapshot.error().kind, ErrorKind::badInput);
    }
    EXPECT_EQ(readText("\x80\x02"
                       "cos\nsystem\n.")
                  .error()
                  .message,
              "file.pickle asks to load or call a Python object, and no memory snapshot does that (byte 3)");
}

TEST(SnapshotFile, SaysWhatIsWrong)
{
    using namespace std::string_literals;
    const auto message = [](const std::string& text) {
        const Result<SnapshotPtr> snapshot = readText(text);
        EXPECT_FALSE(snapshot.ok());
        return snapshot.ok() ? std::string() : snapshot.error().message;
    };
    EXPECT_THAT(message(""), HasSubstr("ends too early (byte 0)"));
    EXPECT_THAT(message("PK\x03\x04"), HasSubstr("does not begin as a pickle of protocol 2 to 5"));
    EXPECT_THAT(message("\x80\x06."), HasSubstr("is a pickle of protocol 6, expected 2 to 5"));
    EXPECT_THAT(message("\x80\x04}."), HasSubstr("holds no list 'segments', expected a memory snapshot"));
    EXPECT_THAT(message("\x80\x04]."), HasSubstr("holds no dictionary with 'segments'"));
    EXPECT_THAT(message("\x80\x04."), HasSubstr("ends with several values"));
    EXPECT_THAT(message("\x80\x04h\x05."s), HasSubstr("refers to a value that is not there"));
    EXPECT_THAT(message("\x80\x04Nr\xff\xff\xff\xff."s), HasSubstr("remembers values out of order"));
    EXPECT_THAT(message("\x80\x04\x8a\x0b" + std::string(11, '\x7f') + "."), HasSubstr("more than 64 bits"));
    EXPECT_THAT(message("\x80\x04\x8f."), HasSubstr("holds opcode 143"));
    EXPECT_THAT(message("\x80\x04]N}e."), HasSubstr("ends a group that has no beginning"));
}

TEST(SnapshotFile, AFileThatIsCutOffMeanwhileIsRefused)
{
    const TemporaryFolder folder;
    const std::filesystem::path path = folder.path() / "growing.pickle";
    const auto changed = HasSubstr("growing.pickle changed while Headroom read the file");
    std::ofstream(path, std::ios::binary) << "\x80\x04](" << std::string(6 << 20, 'N') << "e.";
    SnapshotWatch watch;
    watch.progressed = [&](double) { std::filesystem::resize_file(path, 100); };
    EXPECT_THAT(readSnapshot(path, {}, watch).error().message, changed);

    std::filesystem::copy_file(data("full.pickle"), path, std::filesystem::copy_options::overwrite_existing);
    const Result<SnapshotPtr> whole = readSnapshot(path);
    ASSERT_TRUE(whole.ok()) << whole.error().message;
    std::filesystem::resize_file(path, 0); // before its events are followed
    EXPECT_THAT(importSnapshot(*whole, path, {}).error().message, changed);
}

/// Cut anywhere, it is refused; with bytes changed, it is refused or is another snapshot, and nothing else happens.
TEST(SnapshotFile, DamageIsFound)
{
    const std::string whole = bytesOf(HEADROOM_SOURCE_DIR "/tests/fuzz/corpus/snapshot/protocol4");
    ASSERT_GT(whole.size(), 10'000U);
    for (std::size_t length = 0; length < whole.size(); length += 37)
        EXPECT_FALSE(readText(std::string_view(whole).substr(0, length)).ok()) << length;
    std::mt19937 random(1);
    for (int i = 0; i < 3000; ++i) {
        std::string changed = whole;
        for (unsigned n = 1 + random() % 3; n > 0; --n)
            changed[random() % changed.size()] = static_cast<char>(random());
        const Result<SnapshotPtr> snapshot = readText(changed);
        if (!snapshot)
            continue;
        const Result<DeviceHistory> history = deviceHistory(**snapshot, busiestDevice(**snapshot));
        if (!history)
            continue;
        replaySnapshot(*history);
        const Result<StepTracePtr> step = stepOf(**snapshot, *history, 0, "changed");
        EXPECT_TRUE(step.ok() || step.error().kind == ErrorKind::badInput) << step.error().message;
    }
}

TEST(SnapshotFile, TheCorpusOfFuzzingIsRead)
{
    int files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(HEADROOM_SOURCE_DIR "/tests/fuzz/corpus/snapshot")) {
        const std::string bytes = bytesOf(entry.path().string());
        const Result<SnapshotPtr> snapshot = readText(bytes);
        EXPECT_TRUE(snapshot.ok() || snapshot.error().kind == ErrorKind::badInput);
        ++files;
    }
    EXPECT_GT(files, 0);
}

TEST(Snapshot, TheInnermostOpenAnnotationCounts)
{
    Snapshot snapshot;
    snapshot.strings = {"outer", "Optimizer.step#Adam.step", "inner"};
    const auto at = [&](std::int64_t time, Snapshot::Index name, bool begins) {
        snapshot.annotations.push_back({name, 0, time, begins});
    };
    at(1, 0, true);
    at(2, 1, true);
    at(3, 2, true);
    at(4, 0, true);
    at(5, 0, false); // the inner of both
    at(6, 1, false); // although `inner` is open
    at(7, 2, false);
    at(8, 1, false); // never began
    Annotations annotations(snapshot, 0);
    const auto expectAt = [&](std::int64_t time, std::string_view name, std::optional<Phase> phase) {
        annotations.advance(time);
        EXPECT_EQ(annotations.innermost(), name) << time;
        EXPECT_EQ(annotations.phase(), phase) << time;
    };
    expectAt(0, "", std::nullopt);
    expectAt(2, "outer", Phase::optimizer);
    expectAt(3, "inner", Phase::optimizer);
    expectAt(4, "outer", Phase::optimizer);
    expectAt(5, "inner", Phase::optimizer);
    expectAt(6, "inner", std::nullopt);
    expectAt(8, "outer", std::nullopt);
}

// Looking through all open annotations at each event would take hours.
TEST(Snapshot, ManyAnnotationsStayOpen)
{
    constexpr std::int64_t count = 1'000'000;
    Snapshot snapshot;
    snapshot.strings = {"Optimizer.step#Adam.step", "open"};
    for (std::int64_t i = 0; i < count; ++i)
        snapshot.annotations.push_back({i % 2 == 0 ? 0U : 1U, 0, i, true});
    for (std::int64_t i = 0; i < count / 2; ++i)
        snapshot.annotations.push_back({0, 0, count + i, false});
    Annotations annotations(snapshot, 0);
    for (std::int64_t i = 0; i < 3 * count / 2; ++i) {
        annotations.advance(i);
        EXPECT_EQ(annotations.phase().has_value(), i < 3 * count / 2 - 1);
        EXPECT_EQ(annotations.innermost(), i > 0 ? "open" : "");
    }
}

} // namespace
} // namespace headroom
