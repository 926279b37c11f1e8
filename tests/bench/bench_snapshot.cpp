// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
// Memory snapshots that Python makes first (tests/data/snapshots/make_snapshot.py): one of a million events, and two to
// compare. The comparison of two of 1 GB is stated from those smaller ones: time and memory are proportional to the
// files.
#include "core/allocator/replay.h"
#include "core/base/try.h"
#include "core/compare/peak_comparison.h"
#include "core/compare/peak_side.h"
#include "core/predict/predict.h"
#include "core/snapshot/import.h"
#include "tests/core/temporary_folder.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
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
const std::filesystem::path& withFrames(int seed)
{
    static const TemporaryFolder folder;
    static std::map<int, std::filesystem::path> made;
    const auto [entry, isNew] = made.try_emplace(seed, folder.path() / (std::to_string(seed) + ".pickle"));
    if (isNew) {
        const std::string command = "python3 " HEADROOM_SOURCE_DIR "/tests/data/snapshots/make_snapshot.py "
            + entry->second.string() + " --events 300000 --own-tracebacks --seed " + std::to_string(seed);
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

/// What `torch-headroom compare` does. "GB_s": seconds for two files of 1 GB each; "GB_MiB": memory for them.
void compareThem(benchmark::State& state)
{
    const auto bytes
        = static_cast<double>(std::filesystem::file_size(withFrames(1)) + std::filesystem::file_size(withFrames(2)));
    double seconds = 0;
    double most = 0;
    for (auto _ : state) {
        std::ofstream("/proc/self/clear_refs") << 5; // VmHWM begins anew
        const double before = residentBytes("VmRSS");
        const auto begin = std::chrono::steady_clock::now();
        const Result<PeakSide> a = sideOf(withFrames(1));
        const Result<PeakSide> b = sideOf(withFrames(2));
        if (!a || !b)
            return state.SkipWithError((a ? b : a).error().message.c_str());
        benchmark::DoNotOptimize(peakTables(*a, *b));
        seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        most = std::max(most, residentBytes("VmHWM") - before);
    }
    constexpr double asked = 2e9;
    state.counters["files_MiB"] = bytes / MiB;
    state.counters["GB_s"] = seconds * asked / bytes;
    state.counters["GB_MiB"] = most * asked / bytes / MiB;
}

} // namespace

BENCHMARK(readIt)->Unit(benchmark::kMillisecond);
BENCHMARK(openIt)->Unit(benchmark::kMillisecond);
BENCHMARK(replayIt)->Unit(benchmark::kMillisecond);
BENCHMARK(otherSettings)->Unit(benchmark::kMillisecond);
BENCHMARK(compareThem)->Unit(benchmark::kMillisecond)->Iterations(2);
