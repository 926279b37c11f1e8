// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/step_lines.h"

#include "app/cli/table.h"
#include "core/base/try.h"
#include "core/cost/time_model.h"

#include <algorithm>
#include <cmath>
#include <ostream>
#include <span>
#include <string_view>

namespace headroom::cli {

std::string axisNote(const StepTrace& trace)
{
    return trace.collectives.size() > 0 ? " (ops and collectives in sequence)" : "";
}

namespace {

/// The value of `bound_by` in JSON.
const char* boundBy(const StepClock& clock)
{
    switch (clock.bound()) {
    case StepClock::Bound::copies:
        return "copies";
    case StepClock::Bound::cpu:
        return "cpu";
    case StepClock::Bound::communication:
        return "communication";
    case StepClock::Bound::gpu:
        break;
    }
    return "gpu";
}

void addCommunication(Json& json, const StepTrace& trace, const StepClock& clock)
{
    json["clock"]["communication_ms"] = clock.communicationMs;
    json["clock"]["exposed_ms"] = clock.exposedMs;
    Json& modules = json["communication"]["modules"] = Json::array();
    for (const ModuleCommunication& module : communicationByModule(trace, clock))
        modules.push_back({{"module", trace.moduleFqn(module.module)},
                           {"collectives", module.collectives},
                           {"bytes", module.bytes},
                           {"ms", module.ms},
                           {"exposed_ms", module.exposedMs}});
    const std::vector<ModuleId> of = collectiveModules(trace);
    Json& runs = json["communication"]["collectives"] = Json::array();
    for (const TimedCollective& run : clock.collectives) {
        const std::size_t row = collectiveRow(trace, run.op);
        const GroupId group = trace.collectives.group[row];
        runs.push_back({{"collective", collectiveName(trace.collectives.kind[row])},
                        {"op", run.op.value},
                        {"module", trace.moduleFqn(of[row])},
                        {"bytes", trace.collectives.bytes[row]},
                        {"group", trace.strings[trace.groups.name[group]]},
                        {"ranks", trace.groups.ranks[group].size()},
                        {"begin_ms", run.beginMs},
                        {"ms", run.ms},
                        {"exposed_ms", run.exposedMs}});
    }
}

} // namespace

Json clockJson(const StepClock& clock)
{
    Json json{{"step_ms", clock.stepMs},
              {"gpu_ms", clock.gpuMs},
              {"cpu_ms", clock.cpuMs},
              {"kernels", std::llround(clock.kernels)},
              {"recomputed_kernels", std::llround(clock.recomputedKernels)},
              {"bound_by", boundBy(clock)}};
    if (clock.copyMs > 0) {
        json["copy_ms"] = clock.copyMs;
        json["exposed_copy_ms"] = clock.exposedCopyMs;
    }
    return json;
}

Status addClock(Json& json, const StepTrace& trace, const CheckpointPlan& plan)
{
    json["time_model"] = timesOf(trace.info);
    if (!hasClock(trace))
        return {};
    ASSIGN_OR_RETURN(const StepClock clock, clockOf(trace, plan));
    json["clock"] = clockJson(clock);
    if (!clock.collectives.empty())
        addCommunication(json, trace, clock);
    if (const std::int64_t tokens = trace.info.batch * trace.info.sequence; tokens > 0)
        json["clock"]["tokens_per_second"] = static_cast<double>(tokens) / clock.stepMs * 1e3;
    return {};
}

std::string clockText(const StepClock& clock)
{
    std::string text = formatMs(clock.stepMs) + ": the GPU works " + formatMs(clock.gpuMs)
        + (clock.collectives.empty() ? "" : " besides collectives") + ", the CPU issues "
        + groupedDigits(std::llround(clock.kernels)) + " kernels in " + formatMs(clock.cpuMs);
    if (clock.recomputedKernels >= 1)
        text += " (" + groupedDigits(std::llround(clock.recomputedKernels)) + " recomputed)";
    if (!clock.collectives.empty())
        text += ", " + groupedDigits(static_cast<std::int64_t>(clock.collectives.size())) + " collectives take "
            + formatMs(clock.communicationMs) + " (" + formatMs(clock.exposedMs) + " exposed)";
    if (clock.copyMs > 0)
        text += ", copies to the host and back take " + formatMs(clock.copyMs) + " (" + formatMs(clock.exposedCopyMs)
            + " exposed)";
    switch (clock.bound()) {
    case StepClock::Bound::cpu:
        return text + "; the CPU binds";
    case StepClock::Bound::communication:
        return text + "; communication binds";
    case StepClock::Bound::copies:
        return text + "; copies to the host bind";
    case StepClock::Bound::gpu:
        break;
    }
    return text + "; the GPU binds";
}

Result<std::string> clockText(const StepTrace& trace, const CheckpointPlan& plan)
{
    ASSIGN_OR_RETURN(const StepClock clock, clockOf(trace, plan));
    return clockText(clock);
}

void printOffload(const Plan& plan, std::ostream& out)
{
    if (plan.offload.moved > 0)
        out << "Offload       " << formatBytes(plan.offload.moved) << " to the host and back in "
            << formatMs(plan.offload.copyMs) << "; the GPU waits for " << formatMs(plan.offload.exposedMs)
            << "\n              Pinned host memory: " << exactBytes(plan.offload.host) << '\n';
}

namespace {

void printObstacles(std::span<const Obstacle> modules, const char* title, const char* restriction, const char* others,
                    std::ostream& out)
{
    if (modules.empty())
        return;
    out << title << modules.front().module << restriction << modules.front().reason << '\n';
    if (modules.size() > 1)
        out << "              " << modules.size() - 1 << others << "; --json names all.\n";
}

} // namespace

void printNotCheckpointable(std::span<const Obstacle> modules, std::ostream& out)
{
    printObstacles(modules, "Left out      ", " cannot be checkpointed: ", " more cannot either", out);
}

void printWholeOnly(std::span<const Obstacle> modules, std::ostream& out)
{
    printObstacles(modules, "Whole only    ", " is recomputed as a whole or not at all: ", " more are, too", out);
}

Status printCommunication(const StepTrace& trace, std::ostream& out)
{
    if (trace.collectives.size() == 0 || !hasClock(trace))
        return {};
    ASSIGN_OR_RETURN(const StepClock clock, clockOf(trace, {}));
    constexpr std::size_t most = 8;
    using enum Table::Align;
    Table table({{"Communication"}, {"Collectives", right}, {"Bytes", right}, {"Time", right}, {"Exposed", right}});
    const std::vector<ModuleCommunication> modules = communicationByModule(trace, clock);
    for (const ModuleCommunication& module : std::span(modules).first(std::min(most, modules.size())))
        table.addRow({std::string(trace.moduleFqn(module.module)), groupedDigits(module.collectives),
                      formatBytes(module.bytes), formatMs(module.ms), formatMs(module.exposedMs)});
    out << '\n';
    table.print(out);
    if (modules.size() > most)
        out << "and " << modules.size() - most << " modules more: --json has all\n";
    return {};
}

} // namespace headroom::cli
