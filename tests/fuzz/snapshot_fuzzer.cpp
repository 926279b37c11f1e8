// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
// Memory snapshots of PyTorch: reading, the history, its replay, the step made of it, and what its allocator would do.
#include "core/allocator/replay.h"
#include "core/predict/predict.h"
#include "core/snapshot/device_history.h"
#include "core/snapshot/import.h"

#include <cstdlib>
#include <iostream>
#include <span>

using namespace headroom;

namespace {

[[noreturn]] void wrong(const std::string& what)
{
    std::cerr << what << '\n';
    std::abort();
}

void simulate(const StepTrace& trace, const Timeline& timeline, const char* settings)
{
    AllocatorRules rules;
    rules.capacity = Bytes{64} << 30;
    const Result<AllocatorRules> read = withAllocatorSettings(rules, settings);
    if (!read)
        wrong(read.error().message);
    const AllocatorRun run = simulateAllocator(trace, timeline, *read);
    if (run.failure)
        outOfMemorySentence(trace, *run.failure);
    else if (run.samples.size() != timeline.changes.size())
        wrong("samples are missing");
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
    const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
    const Result<SnapshotPtr> snapshot = readSnapshot(bytes, nullptr, "input");
    if (!snapshot)
        return 0;
    const std::size_t device = busiestDevice(**snapshot);
    const Result<DeviceHistory> history = deviceHistory(**snapshot, device);
    if (!history)
        return 0;
    const SnapshotReplay replay = replaySnapshot(*history);
    if (replay.samePlace > replay.allocations || replay.sameReserved > replay.events)
        wrong("more events agree than there are");
    const Result<StepTracePtr> step = stepOf(**snapshot, *history, device, "input");
    if (!step) {
        if (step.error().kind != ErrorKind::badInput)
            wrong(step.error().message);
        return 0;
    }
    const Result<Timeline> timeline = predict(**step, {});
    if (!timeline)
        wrong(timeline.error().message);
    simulate(**step, *timeline, "");
    simulate(**step, *timeline, "expandable_segments:True,roundup_power2_divisions:4");
    simulate(**step, *timeline,
             "max_split_size_mb:32,garbage_collection_threshold:0.5,per_process_memory_fraction:0.9");
    return 0;
}
