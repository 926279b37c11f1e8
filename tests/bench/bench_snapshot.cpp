// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
// A memory snapshot of a million events, which Python makes first (tests/data/snapshots/make_snapshot.py).
#include "core/allocator/replay.h"
#include "core/predict/predict.h"
#include "core/snapshot/import.h"
#include "tests/core/temporary_folder.h"

#include <benchmark/benchmark.h>

#include <cstdlib>
#include <filesystem>

using namespace headroom;

namespace {

const std::filesystem::path& million()
{
    static const TemporaryFolder folder;
    static const std::filesystem::path path = [] {
        std::filesystem::path file = folder.path() / "million.pickle";
        const std::string command = "python3 " HEADROOM_SOURCE_DIR "/tests/data/snapshots/make_snapshot.py "
            + file.string() + " --events 1000000";
        return std::system(command.c_str()) == 0 ? file : std::filesystem::path();
    }();
    return path;
}

void readIt(benchmark::State& state)
{
    for (auto _ : state) {
        const Result<SnapshotPtr> snapshot = readSnapshot(million());
        if (!snapshot)
            return state.SkipWithError(snapshot.error().message.c_str());
        state.counters["events"] = static_cast<double>((*snapshot)->eventCount);
        state.counters["file_MiB"] = static_cast<double>(std::filesystem::file_size(million())) / MiB;
    }
}

/// What the window does before it draws.
void openIt(benchmark::State& state)
{
    for (auto _ : state) {
        const Result<StepTracePtr> step = readStepOrSnapshot(million());
        if (!step)
            return state.SkipWithError(step.error().message.c_str());
        const Result<Timeline> timeline = predict(**step, {});
        benchmark::DoNotOptimize(timeline.ok());
    }
}

void replayIt(benchmark::State& state)
{
    const Result<ImportedSnapshot> imported = importSnapshot(million());
    if (!imported)
        return state.SkipWithError(imported.error().message.c_str());
    for (auto _ : state) {
        const SnapshotReplay replay = replaySnapshot(imported->history);
        state.counters["same"] = static_cast<double>(replay.sameReserved);
    }
}

void otherSettings(benchmark::State& state)
{
    const Result<StepTracePtr> step = readStepOrSnapshot(million());
    if (!step)
        return state.SkipWithError(step.error().message.c_str());
    const Result<Timeline> timeline = predict(**step, {});
    const AllocatorRules rules = *withAllocatorSettings({}, "expandable_segments:True");
    for (auto _ : state)
        benchmark::DoNotOptimize(simulateAllocator(**step, *timeline, rules).stats.reservedPeak);
}

} // namespace

BENCHMARK(readIt)->Unit(benchmark::kMillisecond);
BENCHMARK(openIt)->Unit(benchmark::kMillisecond);
BENCHMARK(replayIt)->Unit(benchmark::kMillisecond);
BENCHMARK(otherSettings)->Unit(benchmark::kMillisecond);
