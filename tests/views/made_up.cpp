// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/views/made_up.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace headroom {
namespace {

constexpr double blockForwardMs = 2.4;
constexpr double blockBackwardMs = 4.8;
constexpr double blockRecomputeMs = 2.33;
constexpr double optimizerMs = 18;
constexpr Bytes blockActivation = 540 * MiB;

Bytes scaled(Bytes bytes, double scale)
{
    return roundedToBlock(static_cast<Bytes>(static_cast<double>(bytes) * scale));
}

// Deterministic, between 0 and 1.
double noise(int i)
{
    const double x = std::sin(i * 12.9898) * 43758.5453;
    return x - std::floor(x);
}

class Author
{
public:
    Author(const MadeUpStep& step, double discarded)
        : step_(step)
        , discarded_(discarded)
    {
    }

    TimelinePtr write()
    {
        auto& start = made_.start;
        start[static_cast<std::size_t>(Category::parameter)] = bytes(6770 * MiB);
        start[static_cast<std::size_t>(Category::buffer)] = bytes(184 * MiB);
        start[static_cast<std::size_t>(Category::optimizer)] = bytes(13540 * MiB);
        now_ = start;
        made_.peak = total(start);
        made_.peakChange = Timeline::npos;
        made_.atPeak = start;
        phase(Phase::forward, [this] { forward(); });
        phase(Phase::backward, [this] { backward(); });
        phase(Phase::optimizer, [this] { optimizer(); });
        phase(Phase::zeroGrad, [this] { zeroGrad(); });
        made_.durationMs = ms_;
        return std::make_shared<const Timeline>(std::move(made_));
    }

private:
    Bytes bytes(Bytes full) const { return scaled(full, step_.scale); }

    template <class Body>
    void phase(Phase phase, Body body)
    {
        const double begin = ms_;
        body();
        made_.phases.push_back({phase, begin, ms_});
    }

    void change(Bytes delta, Category category, bool recomputed = false)
    {
        made_.changes.push_back({ms_, delta, StorageId(storage_++), OpId(), category, recomputed});
        now_[static_cast<std::size_t>(category)] += delta;
        if (total(now_) > made_.peak) {
            made_.peak = total(now_);
            made_.peakChange = made_.changes.size() - 1;
            made_.atPeak = now_;
        }
    }

    void forward()
    {
        const int n = step_.tensorsPerBlock;
        for (int block = 0; block < step_.blocks; ++block) {
            for (int i = 0; i < n; ++i) {
                const Bytes part = bytes(blockActivation / n);
                const Bytes temporary = bytes(static_cast<Bytes>((40 + 300 * noise(i)) * static_cast<double>(MiB)));
                change(part, Category::activation);
                change(temporary, Category::temporary);
                ms_ += blockForwardMs / n;
                change(-temporary, Category::temporary);
                change(-roundedToBlock(static_cast<Bytes>(static_cast<double>(part) * discarded_)),
                       Category::activation);
            }
        }
        change(bytes(2 * GiB), Category::temporary); // logits
        ms_ += 3;
    }

    void backward()
    {
        const int n = step_.tensorsPerBlock;
        ms_ += 2;
        change(-bytes(2 * GiB), Category::temporary);
        for (int block = 0; block < step_.blocks; ++block) {
            const Bytes part = bytes(blockActivation / n);
            const Bytes gone = roundedToBlock(static_cast<Bytes>(static_cast<double>(part) * discarded_));
            if (gone > 0) {
                for (int i = 0; i < n; ++i) {
                    change(gone, Category::activation, true);
                    ms_ += blockRecomputeMs * discarded_ / n;
                    made_.recomputeMs += blockRecomputeMs * discarded_ / n;
                }
            }
            for (int i = 0; i < n; ++i) {
                const Bytes temporary = bytes(static_cast<Bytes>((30 + 200 * noise(i + 7)) * static_cast<double>(MiB)));
                change(temporary, Category::temporary);
                ms_ += blockBackwardMs / n;
                change(-temporary, Category::temporary);
                change(-part, Category::activation);
            }
            change(bytes(70 * MiB), Category::gradient);
        }
    }

    void optimizer()
    {
        for (int block = 0; block < step_.blocks; ++block) {
            change(bytes(210 * MiB), Category::temporary);
            ms_ += optimizerMs / step_.blocks;
            change(-bytes(210 * MiB), Category::temporary);
        }
    }

    void zeroGrad()
    {
        for (int block = 0; block < step_.blocks; ++block)
            change(-bytes(70 * MiB), Category::gradient);
        ms_ += 0.4;
    }

    MadeUpStep step_;
    double discarded_;
    Timeline made_;
    CategoryBytes now_{};
    double ms_ = 0;
    std::uint32_t storage_ = 0;
};

} // namespace

TimelinePtr madeUpTimeline(const MadeUpStep& step, double discarded)
{
    return Author(step, discarded).write();
}

ModuleInfoPtr madeUpModules(const MadeUpStep& step)
{
    auto info = std::make_shared<ModuleInfo>();
    ModuleStats root;
    root.fqn = "GPT";
    root.isLeaf = false;
    info->stats.push_back(root);
    for (int i = 0; i < step.blocks; ++i) {
        ModuleStats block;
        block.fqn = "GPT.layers." + std::to_string(i);
        block.isLeaf = false;
        block.sacMemory = scaled(static_cast<Bytes>((540 + 40 * noise(i)) * static_cast<double>(MiB)), step.scale);
        block.sacRuntimeMs = blockRecomputeMs * (0.9 + 0.3 * noise(i + 31));
        block.slopes = {0.52, 1.03, 1.31, 1.6};
        block.breakpoints = {0, 0.25, 0.45, 0.75, 1};
        block.intercepts = {0};
        for (std::size_t s = 1; s < block.slopes.size(); ++s)
            block.intercepts.push_back(block.intercepts.back()
                                       + (block.slopes[s - 1] - block.slopes[s]) * block.breakpoints[s]);
        info->stats.push_back(block);
        ModuleStats norm;
        norm.fqn = block.fqn + ".norm";
        info->stats.push_back(norm);
    }
    return info;
}

Plan madeUpPlan(const MadeUpStep& step, double discarded)
{
    const auto timeline = madeUpTimeline(step, discarded);
    Plan plan;
    plan.status = PlanStatus::optimal;
    plan.peak = timeline->peak;
    plan.budget = plan.peak + scaled(100 * MiB, step.scale);
    plan.baselinePeak = madeUpTimeline(step, 0)->peak;
    plan.recomputeMs = timeline->recomputeMs;
    plan.boundMs = plan.recomputeMs;
    plan.stepMs = timeline->durationMs - timeline->recomputeMs;
    plan.solveMs = 1.1;
    plan.msPerGiB = 4.4;
    plan.leastBudget = madeUpTimeline(step, 1)->peak;
    const std::vector<double> corners{0.25, 0.45, 0.75, 1};
    for (int i = 0; i < step.blocks && discarded > 0; ++i) {
        const double wanted = discarded + 0.3 * (noise(i + 3) - 0.5);
        const double ratio = *std::min_element(corners.begin(), corners.end(), [&](double a, double b) {
            return std::abs(a - wanted) < std::abs(b - wanted);
        });
        plan.decisions["GPT.layers." + std::to_string(i)] = ratio;
    }
    return plan;
}

PlannedPoint madeUpPoints(const ModuleInfoPtr& modules, const Plan& plan)
{
    return [modules, decisions = plan.decisions](const std::string& fqn) {
        const auto found = decisions.find(fqn);
        return tradeOffPoint(*findModule(*modules, fqn), found == decisions.end() ? 0 : found->second);
    };
}

std::vector<FrontierPoint> madeUpFrontier(const MadeUpStep& step, int points)
{
    std::vector<FrontierPoint> frontier;
    for (int i = 0; i < points; ++i) {
        const double discarded = 1 - static_cast<double>(i) / (points - 1);
        const auto timeline = madeUpTimeline(step, discarded);
        // Convex: the last bytes cost most.
        frontier.push_back({timeline->peak, timeline->recomputeMs * (0.45 + 0.55 * discarded), 0});
    }
    return frontier;
}

namespace {

FitRow madeUpRow(std::int64_t batch, double speed, std::int64_t largestPlain, std::int64_t largest)
{
    FitRow row;
    row.size.batch = batch;
    row.size.sequence = 1024;
    row.isRecorded = batch >= largestPlain - 1;
    const auto run = [&](double recomputeMs) {
        FitRun made;
        made.peak = (4 + batch) * GiB * 3 / 4;
        made.recomputeMs = recomputeMs;
        made.stepMs = 20 + 1e3 / speed * static_cast<double>(batch) + recomputeMs;
        made.samplesPerSecond = 1e3 * static_cast<double>(batch) / made.stepMs;
        made.tokensPerSecond = 1024 * made.samplesPerSecond;
        made.card.runs = true;
        made.card.reservedPeak = made.peak + GiB / 2;
        return made;
    };
    row.plain = run(0);
    row.plain.card.runs = batch <= largestPlain;
    if (batch > largestPlain) {
        row.planned = run(3.0 * static_cast<double>(batch - largestPlain));
        row.planned->card.runs = batch <= largest;
        if (row.runs())
            row.plan = std::make_shared<const PlanAnswer>();
        else
            row.planned->card.reason = "out of memory in the 3rd step";
    }
    return row;
}

} // namespace

FitResult madeUpFit()
{
    FitSeries first;
    first.gpu = "rtx-4090-24gb";
    for (const std::int64_t batch : {1, 2, 4, 8, 16, 23, 24, 26, 30, 34, 38, 39})
        first.rows.push_back(madeUpRow(batch, 60, 23, 38));
    first.largestPlain = 5;
    first.largest = 10;
    first.fastest = 6;
    first.isBounded = true;
    FitSeries second;
    second.gpu = "rtx-3090-24gb";
    for (const std::int64_t batch : {1, 2, 4, 8, 12, 13, 16, 20, 21})
        second.rows.push_back(madeUpRow(batch, 38, 12, 20));
    second.rows[2].failure = "the batch is odd";
    second.largestPlain = 4;
    second.largest = second.fastest = 7;
    second.isBounded = true;
    return {{first, second}, 9};
}

} // namespace headroom
