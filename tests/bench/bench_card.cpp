// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// Plans for cards: bench_card STEP.hrs ... prints one row for each step and each capacity at 30, 50, 70 and 90 % of the
// range from the least budget to the peak, with PyTorch's default allocator and with expandable segments: the recompute
// time of the plan that planForCard() finds, of the best budget found by trial in steps of 0.5 % of the range, and of
// the plan of least recomputation whose bytes fit, which need not run.
#include "core/policy/card_planner.h"
#include "core/trace/step_file.h"

#include <cstdio>
#include <filesystem>
#include <optional>

namespace headroom {
namespace {

constexpr int trials = 200;

/// The recompute time of the first budget, from the card's memory downwards, whose plan runs; nullopt: none runs.
std::optional<double> byTrial(const StepPlanner& planner, const Card& card, Bytes least, Bytes most)
{
    for (int trial = trials; trial >= 0; --trial) {
        PlanRequest request;
        request.budget = least + (most - least) / trials * trial;
        if (request.budget > card.forTensors())
            continue;
        const Result<PlanAnswer> planned = planner.solve(request);
        if (planned && planned->timeline && runOnCard(card, *planner.trace(), *planned->timeline).runs)
            return planned->plan.recomputeMs;
    }
    return std::nullopt;
}

std::string cell(const std::optional<double>& ms)
{
    char text[32];
    std::snprintf(text, sizeof(text), ms ? "%9.2f" : "     none", ms.value_or(0));
    return text;
}

int print(const char* file)
{
    const Result<StepTracePtr> step = readStepTrace(file);
    const Result<StepPlanner> planner = step ? StepPlanner::create(*step) : step.error();
    PlanRequest request;
    request.budget = 1;
    const Result<PlanAnswer> least = planner ? planner->solve(request) : planner.error();
    if (!least) {
        std::fprintf(stderr, "%s: %s\n", file, least.error().message.c_str());
        return 1;
    }
    const Bytes from = least->plan.leastBudget, to = planner->recorded()->peak;
    for (const char* settings : {"", "expandable_segments:True"})
        for (const double share : {0.3, 0.5, 0.7, 0.9}) {
            const Bytes capacity = from + static_cast<Bytes>(share * static_cast<double>(to - from));
            const Result<Card> card = cardFor(std::to_string(capacity), **step, settings);
            const Result<PlanAnswer> found
                = card ? planForCard(*planner, {}, std::make_shared<const Card>(*card)) : card.error();
            if (!found) {
                std::fprintf(stderr, "%s: %s\n", file, found.error().message.c_str());
                return 1;
            }
            const Plan& plan = found->plan;
            const std::optional<double> ms = found->card->run.runs ? std::optional(plan.recomputeMs) : std::nullopt;
            std::printf("%-18s %-10s %3.0f %% %9.3f %s %s %9.2f %6d %8.0f\n",
                        std::filesystem::path(file).stem().c_str(), *settings ? "expandable" : "default", share * 100,
                        static_cast<double>(capacity) / GiB, cell(ms).c_str(),
                        cell(byTrial(*planner, *card, from, to)).c_str(), plan.boundMs, found->card->tried,
                        plan.solveMs);
            std::fflush(stdout);
        }
    return 0;
}

} // namespace
} // namespace headroom

int main(int argc, char** argv)
{
    std::printf("%-18s %-10s %5s %9s %9s %9s %9s %6s %8s\n", "step", "settings", "range", "GiB", "ms", "by trial",
                "bound", "tried", "in ms");
    int failed = 0;
    for (int i = 1; i < argc; ++i)
        failed |= headroom::print(argv[i]);
    return failed;
}
