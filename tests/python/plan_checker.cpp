// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// Plans and verifies recorded steps by the hundred, for random_programs_test.py: one process answers one line for each
// line that it reads, its fields separated by tabs.
//
//   plan STEP POLICY SHARE     writes the policy for a budget so far between the least peak and the step's own
//                              answers BUDGET, PEAK, RECOMPUTE_MS, the number of checkpointed modules, and what is in
//                              the way of checkpointing one, if there is such a module
//   offload STEP POLICY SHARE HOST   the same, where saved tensors may go to at most HOST bytes of host memory (0:
//   any);
//                              answers also the bytes moved, the host memory, and the exposed ms
//   random STEP POLICY SEED    writes the policy of modules drawn at random: offloaded, or checkpointed with ops drawn
//   at
//                              random that are saved and that go to the host
//                              answers the peak under the policy, the number of offloaded modules, the bytes moved, the
//                              host memory, and the number of ops whose results go to the host
//   ops STEP POLICY FRACTION   writes the save lists of the plan of ops for the fraction, or the least one that there
//   is
//                              answers the peak under them, and the number of checkpointed modules
//   verify STEP RUN POLICY     answers the executed peak and what verify says, empty when the steps are equal to the
//   byte
//
// What fails is answered by "error" and a sentence.

#include "core/joint/ops_planner.h"
#include "core/joint/ops_policy.h"
#include "core/policy/policy.h"
#include "core/policy/policy_maker.h"
#include "core/policy/step_planner.h"
#include "core/predict/memory_levels.h"
#include "core/predict/regions.h"
#include "core/trace/step_file.h"

#include <algorithm>
#include <functional>
#include <iostream>
#include <numeric>
#include <random>
#include <sstream>
#include <string>
#include <vector>

using namespace headroom;

namespace {

std::string firstObstacle(const ModuleInfo& info)
{
    for (const ModuleStats& stats : info.stats)
        if (!stats.obstacle.empty() && !stats.isLeaf)
            return stats.obstacle;
    return "";
}

Result<std::string> plan(const std::string& stepFile, const std::string& policyFile, double share,
                         std::optional<Bytes> host = {})
{
    const Result<StepTracePtr> step = readStepTrace(stepFile);
    if (!step)
        return step.error();
    const Result<StepPlanner> planner = StepPlanner::create(*step);
    if (!planner)
        return planner.error();
    PlanRequest request;
    request.budget = 1;
    request.offload = host.has_value();
    request.hostMemory = host.value_or(0);
    const Result<PlanAnswer> least = planner->solve(request);
    if (!least)
        return least.error();
    const Bytes from = least->plan.leastBudget;
    const Bytes to = planner->recorded()->peak;
    request.budget = from + static_cast<Bytes>(share * static_cast<double>(to - from));
    const Result<PlanAnswer> planned = planner->solve(request);
    if (!planned)
        return planned.error();
    if (const Status written = writePolicy(planned->policy(planner->model()), policyFile); !written)
        return written.error();
    std::ostringstream answer;
    answer << request.budget << '\t' << planned->plan.peak << '\t' << planned->plan.recomputeMs << '\t'
           << planned->regions.size() << '\t' << firstObstacle(*planner->moduleInfo());
    if (host)
        answer << '\t' << planned->plan.offload.moved << '\t' << planned->plan.offload.host << '\t'
               << planned->plan.offload.exposedMs;
    return answer.str();
}

Offload drawOffload(std::mt19937& draw)
{
    Offload offload{static_cast<int>(draw() % 3), static_cast<int>(draw() % 3)};
    if (draw() % 2 != 0)
        offload.prefetch = static_cast<int>(draw() % 4);
    if (draw() % 2 != 0)
        offload.afterUnpacks = static_cast<int>(draw() % 6);
    return offload;
}

bool drawsArguments(const StepModel& model, std::mt19937& draw, ModuleId module)
{
    return draw() % 2 != 0 && !movedArgumentsOf(*model.trace(), model.index(), module).empty();
}

/// Draws ops to save, and of these some that go to the host, and whether arguments go to the host. A random op is not
/// saved: others may run again after it.
void drawOps(const StepModel& model, std::mt19937& draw, CheckpointRegion& region)
{
    const StepTrace& trace = *model.trace();
    const std::vector<OpId> ops = model.regionOps(region.module);
    const std::vector<bool> savable = model.savableOps(region.module);
    const std::vector<bool> hostable = hostableOps(trace, model.index(), region.module);
    Hosted hosted{std::vector<bool>(ops.size(), false), drawOffload(draw), drawsArguments(model, draw, region.module)};
    region.save.assign(ops.size(), false);
    for (std::size_t op = 0; op < ops.size(); ++op) {
        region.save[op] = draw() % 3 != 0 && savable[op] && (trace.ops.flags[ops[op]] & opRandom) == 0;
        hosted.ops[op] = draw() % 3 != 0 && region.save[op] && hostable[op];
    }
    if (model.index().obstaclesToOffload[region.module.value] == CheckpointObstacle::none
        && (hosted.arguments || std::ranges::find(hosted.ops, true) != hosted.ops.end()))
        region.hosted = std::move(hosted);
}

std::int64_t hostedOps(const CheckpointRegion& region)
{
    return region.hosted ? std::ranges::count(region.hosted->ops, true) : 0;
}

bool hostsArguments(const CheckpointRegion& region)
{
    return region.hosted && region.hosted->arguments;
}

Result<std::string> planAtRandom(const std::string& stepFile, const std::string& policyFile, std::uint32_t seed)
{
    const Result<StepTracePtr> step = readStepTrace(stepFile);
    if (!step)
        return step.error();
    const StepModel model(*step);
    std::mt19937 draw(seed);
    CheckpointPlan regions;
    for (std::uint32_t module = 0; module < (*step)->modules.size(); ++module) {
        const CallId call = decidingCall(model.index(), ModuleId(module));
        if (draw() % 3 == 0 || !call.valid() || !model.index().calls[call.value].saves())
            continue;
        CheckpointRegion region{ModuleId(module)};
        if (draw() % 2 != 0)
            region.offload = drawOffload(draw);
        else if (draw() % 4 != 0)
            drawOps(model, draw, region);
        regions.push_back(std::move(region));
        if (!model.predict(regions) || model.regionOps(ModuleId(module)).empty() || model.isWholeOnly(ModuleId(module)))
            regions.pop_back();
    }
    const Result<Timeline> timeline = model.predict(regions);
    if (!timeline)
        return timeline.error();
    Plan figures;
    figures.peak = figures.budget = timeline->peak;
    if (const Status written = writePolicy(policyOf(model, regions, figures), policyFile); !written)
        return written.error();
    std::ostringstream answer;
    answer << timeline->peak << '\t'
           << std::ranges::count_if(regions, [](const CheckpointRegion& region) { return region.offload.has_value(); })
           << '\t' << timeline->movedBytes << '\t' << timeline->hostBytes << '\t'
           << std::transform_reduce(regions.begin(), regions.end(), std::int64_t{0}, std::plus(), hostedOps) << '\t'
           << std::ranges::count_if(regions, hostsArguments);
    return answer.str();
}

Result<std::string> planOps(const std::string& stepFile, const std::string& policyFile, double fraction)
{
    const Result<StepTracePtr> step = readStepTrace(stepFile);
    if (!step)
        return step.error();
    const Result<OpsPlanner> planner = OpsPlanner::create(*step);
    if (!planner)
        return planner.error();
    OpsRequest request;
    request.fraction = fraction;
    Result<OpsPlan> plan = planner->plan(request);
    while (!plan && plan.error().kind == ErrorKind::infeasible && request.fraction < 1) {
        request.fraction = std::min(1.0, request.fraction + 0.1);
        plan = planner->plan(request);
    }
    if (!plan)
        return plan.error();
    const Result<Policy> policy = opsPolicy(*step, *plan);
    if (!policy)
        return policy.error();
    if (const Status written = writePolicy(*policy, policyFile); !written)
        return written.error();
    return std::to_string(policy->predicted.peak) + '\t' + std::to_string(policy->modules.size());
}

Result<std::string> verify(const std::string& stepFile, const std::string& runFile, const std::string& policyFile)
{
    const Result<StepTracePtr> step = readStepTrace(stepFile);
    const Result<StepTracePtr> run = readStepTrace(runFile);
    const Result<Policy> policy = readPolicy(policyFile);
    if (!step)
        return step.error();
    if (!run)
        return run.error();
    if (!policy)
        return policy.error();
    const Result<CheckpointPlan> regions = checkpointPlan(**step, *policy);
    if (!regions)
        return regions.error();
    const Result<Timeline> predicted = predict(**step, *regions);
    if (!predicted)
        return predicted.error();
    const Result<Timeline> executed = predict(**run, {});
    if (!executed)
        return executed.error();
    const LevelComparison comparison = compareLevels(**step, *predicted, **run, *executed);
    return std::to_string(comparison.executedPeak) + '\t' + comparison.firstDifference;
}

Result<std::string> answer(const std::vector<std::string>& fields)
{
    if (fields.size() == 4 && fields[0] == "plan")
        return plan(fields[1], fields[2], std::stod(fields[3]));
    if (fields.size() == 5 && fields[0] == "offload")
        return plan(fields[1], fields[2], std::stod(fields[3]), std::stoll(fields[4]));
    if (fields.size() == 4 && fields[0] == "random")
        return planAtRandom(fields[1], fields[2], static_cast<std::uint32_t>(std::stoul(fields[3])));
    if (fields.size() == 4 && fields[0] == "ops")
        return planOps(fields[1], fields[2], std::stod(fields[3]));
    if (fields.size() == 4 && fields[0] == "verify")
        return verify(fields[1], fields[2], fields[3]);
    return badInput("expected plan, random, ops or verify with three fields, or offload with four");
}

} // namespace

int main()
{
    for (std::string line; std::getline(std::cin, line);) {
        std::vector<std::string> fields;
        std::istringstream words(line);
        for (std::string field; std::getline(words, field, '\t');)
            fields.push_back(field);
        const Result<std::string> found = answer(fields);
        std::cout << (found ? *found : "error\t" + found.error().message) << std::endl;
    }
}
