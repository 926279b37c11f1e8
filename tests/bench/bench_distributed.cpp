// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// Collectives and steps of many GPUs beside what others published.
//
//     bench_distributed [STEP_FOLDER]
//
// STEP_FOLDER holds steps that record_distributed.py recorded of tests/data/published/training_distributed.json.
#include "core/allocator/replay.h"
#include "core/cost/card_memory.h"
#include "core/cost/collective_model.h"
#include "core/cost/step_times.h"
#include "core/predict/predict.h"
#include "core/predict/step_clock.h"
#include "core/trace/step_file.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

namespace headroom {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

Json published(const char* file)
{
    std::ifstream in(fs::path(HEADROOM_SOURCE_DIR) / "tests" / "data" / "published" / file);
    return Json::parse(in);
}

/// Errors of a group of figures.
struct Errors
{
    double sum = 0, worst = 0, bias = 0;
    int count = 0;

    void add(double ratio)
    {
        sum += std::abs(ratio - 1);
        worst = std::max(worst, std::abs(ratio - 1));
        bias += std::log(ratio);
        ++count;
    }
};

void print(const std::map<std::string, Errors>& groups)
{
    for (const auto& [name, errors] : groups)
        std::printf("%-40s %3d figures, mean error %5.1f %%, worst %5.1f %%, mean ratio %.3f\n", name.c_str(),
                    errors.count, 100 * errors.sum / errors.count, 100 * errors.worst,
                    std::exp(errors.bias / errors.count));
}

void collectives()
{
    std::map<std::string, Errors> groups;
    for (const Json& row : published("collectives.json")) {
        const double bytes = row.at("bytes");
        const int ranks = row.at("gpus");
        if (bytes < 1 << 20)
            continue;
        const GroupShape group{ranks, (ranks + 7) / 8, std::min(ranks, 8)};
        const double us
            = 1e3 * collectiveMs(*findTopology(row.at("topology")), CollectiveKind::allReduce, bytes, group);
        groups[row.at("gpu").get<std::string>() + (row.at("fit").get<bool>() ? ", fitted" : ", checked")].add(
            us / row.at("us").get<double>());
    }
    print(groups);
}

/// As torch.cuda.memory_stats() counts: with the workspaces of cuBLAS, and by the program's own settings.
CachingAllocator::Stats allocatorStats(const StepTrace& step)
{
    const AllocatorRules rules = *withAllocatorSettings({}, recordedAllocatorSettings(step.info));
    return simulateAllocator(step, *predict(step, {}), rules, workspacesOf(step, *findDeviceSpec(step.info.gpu))).stats;
}

void steps(const fs::path& folder)
{
    std::map<std::string, Errors> times;
    std::map<std::string, Errors> memory;
    std::printf("%-36s %5s %10s %10s %6s %10s %10s %10s\n", "row", "GPUs", "predicted", "published", "ratio", "compute",
                "collective", "exposed");
    for (const Json& row : published("training_distributed.json")) {
        const std::string id = row.at("id");
        const auto recorded = readStepTrace(folder / (id + ".hrs"));
        if (!recorded)
            continue;
        const auto timed = withTimes(*recorded, {TimeModel::kernel, {}, "none", row.at("topology")});
        if (!timed) {
            std::printf("%-36s %s\n", id.c_str(), timed.error().message.c_str());
            continue;
        }
        const StepClock clock = *clockOf(*timed->step, {});
        const double ratio = clock.stepMs / row.at("step_s").get<double>() / 1e3;
        std::printf("%-36s %5d %7.0f ms %7.0f ms %6.2f %7.0f ms %7.0f ms %7.0f ms", id.c_str(),
                    row.at("gpus").get<int>(), clock.stepMs, row.at("step_s").get<double>() * 1e3, ratio, clock.gpuMs,
                    clock.communicationMs, clock.exposedMs);
        times[id.substr(0, id.find('-')) + " " + timed->step->info.gpu].add(ratio);
        times[row.at("fit").get<bool>() ? "steps, fitted" : "steps, checked"].add(ratio);
        const auto stats = allocatorStats(*timed->step);
        for (const auto& [name, peak] : {std::pair{"active", stats.activePeak}, {"reserved", stats.reservedPeak}})
            if (const std::string key = std::string(name) + "_gib"; row.contains(key)) {
                const double gib = static_cast<double>(peak) / GiB;
                std::printf("; %s %.2f GiB, published %.2f, ratio %.3f", name, gib, row.at(key).get<double>(),
                            gib / row.at(key).get<double>());
                memory[std::string(name) + " memory"].add(gib / row.at(key).get<double>());
            }
        std::printf("\n");
    }
    print(times);
    print(memory);
}

} // namespace
} // namespace headroom

int main(int argc, char** argv)
{
    headroom::collectives();
    if (argc > 1)
        headroom::steps(argv[1]);
}
