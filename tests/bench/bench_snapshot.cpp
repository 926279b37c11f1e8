// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
// Memory snapshots that Python makes first (tests/data/snapshots/make_snapshot.py): one of a million events, and two to
// compare, of three sizes. The last are two files of 1.05 GB, for which Python takes 5 GB of memory and some minutes.
#include "core/allocator/replay.h"
#include "core/base/try.h"
#include "core/compare/peak_comparison.h"
#include "core/compare/peak_side.h"
#include "core/predict/predict.h"
#include "core/snapshot/import.h"
#include "tests/core/temporary_folder.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

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

/// A snapshot whose events have lists of frames of their own, as with context="all": 134 bytes an event.
const std::filesystem::path& withFrames(std::int64_t events, int seed)
{
    static const TemporaryFolder folder;
    static std::map<std::string, std::filesystem::path> made;
    const std::string name = std::to_string(events) + "-" + std::to_string(seed) + ".pickle";
    const auto [entry, isNew] = made.try_emplace(name, folder.path() / name);
    if (isNew) {
        const std::string command = "python3 " HEADROOM_SOURCE_DIR "/tests/data/snapshots/make_snapshot.py "
            + entry->second.string() + " --own-tracebacks --events " + std::to_string(events) + " --seed "
            + std::to_string(seed);
        if (std::system(command.c_str()) != 0)
            entry->second.clear();
    }
    return entry->second;
}

/// Bytes of the process in memory now, and since the last reset at most.
double residentBytes(const char* key)
{
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);)
        if (line.starts_with(key))
            return std::stod(line.substr(line.find(':') + 1)) * 1024;
    return 0;
}

Result<PeakSide> sideOf(const std::filesystem::path& file)
{
    ASSIGN_OR_RETURN(SnapshotPtr snapshot, readSnapshot(file));
    ASSIGN_OR_RETURN(const SnapshotPart part, partOf(std::move(snapshot), file, {}));
    return peakSideOf(part, file.filename().string());
}

/// What `torch-headroom compare` does.
void compareThem(benchmark::State& state)
{
    const std::filesystem::path& first = withFrames(state.range(0), 1);
    const std::filesystem::path& second = withFrames(state.range(0), 2);
    double most = 0;
    for (auto _ : state) {
        std::ofstream("/proc/self/clear_refs") << 5; // VmHWM begins anew
        const double before = residentBytes("VmRSS");
        const Result<PeakSide> a = sideOf(first);
        const Result<PeakSide> b = sideOf(second);
        if (!a || !b)
            return state.SkipWithError((a ? b : a).error().message.c_str());
        benchmark::DoNotOptimize(peakTables(*a, *b));
        most = std::max(most, residentBytes("VmHWM") - before);
    }
    const auto bytes = static_cast<double>(std::filesystem::file_size(first) + std::filesystem::file_size(second));
    state.counters["files_MiB"] = bytes / MiB;
    state.counters["memory_MiB"] = most / MiB;
    state.counters["MB_per_second"] = benchmark::Counter(bytes / 1e6, benchmark::Counter::kIsIterationInvariantRate);
}

} // namespace

BENCHMARK(readIt)->Unit(benchmark::kMillisecond);
BENCHMARK(openIt)->Unit(benchmark::kMillisecond);
BENCHMARK(replayIt)->Unit(benchmark::kMillisecond);
BENCHMARK(otherSettings)->Unit(benchmark::kMillisecond);
BENCHMARK(compareThem)->Unit(benchmark::kMillisecond)->Arg(300'000)->Arg(2'000'000)->Iterations(2);
BENCHMARK(compareThem)->Unit(benchmark::kMillisecond)->Arg(7'500'000)->Iterations(1); // two files of 1.05 GB
