// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// The whole window on long steps, up to 88,000 ops in 2,048 layers: how long until there is something to see, to drag
// and all of the cost curve; how long one move of the handle takes until all of the window shows the plan for it; how
// long after the last of many moves the verdict on the card stands there; and how long events hold the GUI thread
// meanwhile, by its own CPU time: what else the machine does is no fault of theirs. The card has room for 80 % of the
// step's peak, so that plans run there and others do not. Run with QT_QPA_PLATFORM=offscreen.

#include "app/window/card_controller.h"
#include "app/window/document_page.h"
#include "app/window/frame_pacer.h"
#include "app/window/mainwindow.h"
#include "app/window/open_step.h"
#include "core/predict/step_model.h"
#include "core/trace/step_file.h"
#include "tests/core/synthetic_step.h"
#include "views/plot/timeline_view.h"

#include <benchmark/benchmark.h>

#include <QApplication>
#include <QEventLoop>
#include <QTemporaryDir>
#include <QTimer>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

using namespace headroom;

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds patience{60}; ///< until what is waited for counts as not coming
constexpr double worthCounting = 0.2; ///< ms: what is shorter than that holds nobody up

double msSince(Clock::time_point begin)
{
    return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

/// Of the thread that asks.
double cpuMs()
{
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) / 1e6;
}

/// Knows how long each event held its thread.
class WatchedApplication : public QApplication
{
public:
    using QApplication::QApplication;

    bool notify(QObject* receiver, QEvent* event) override
    {
        if (depth_ > 0)
            return QApplication::notify(receiver, event);
        ++depth_;
        const char* const name = receiver->metaObject()->className();
        const QEvent::Type type = event->type();
        const double begin = cpuMs();
        const bool handled = QApplication::notify(receiver, event);
        count(cpuMs() - begin, name, type);
        --depth_;
        return handled;
    }

    void count(double ms, const char* name, int type)
    {
        if (ms < worthCounting)
            return;
        held_.push_back(ms);
        Total& total = totals_[std::string(name) + " event " + std::to_string(type)];
        total.longest = std::max(total.longest, ms);
        total.sum += ms;
    }

    void forget()
    {
        held_.clear();
        totals_.clear();
    }

    /// Of the events since forget().
    void report(benchmark::State& state)
    {
        if (held_.empty())
            return;
        std::ranges::sort(held_);
        state.counters["held_p50"] = held_[held_.size() / 2];
        state.counters["held_p95"] = held_[held_.size() * 95 / 100];
        state.counters["held_max"] = held_.back();
        state.counters["held_sum"] = std::accumulate(held_.begin(), held_.end(), 0.0);
        state.SetLabel(longest());
    }

private:
    struct Total
    {
        double longest = 0;
        double sum = 0;
    };

    /// The three kinds of events that held longest.
    std::string longest() const
    {
        std::vector<std::pair<std::string, Total>> kinds(totals_.begin(), totals_.end());
        std::ranges::sort(kinds, std::ranges::greater(), [](const auto& kind) { return kind.second.longest; });
        kinds.resize(std::min<std::size_t>(kinds.size(), 3));
        std::string text;
        for (const auto& [name, total] : kinds)
            text += (text.empty() ? "" : "; ") + name + " " + std::to_string(std::lround(total.longest)) + " of "
                + std::to_string(std::lround(total.sum)) + " ms";
        return text;
    }

    int depth_ = 0;
    std::vector<double> held_;
    std::map<std::string, Total> totals_; ///< by kind of event
};

WatchedApplication& application()
{
    return *static_cast<WatchedApplication*>(QCoreApplication::instance());
}

/// False: it did not come in time.
template <class Condition>
bool runUntil(Condition condition)
{
    QTimer beat; // so that the clock is looked at when nothing happens
    beat.start(100);
    const auto end = Clock::now() + patience;
    while (!condition()) {
        if (Clock::now() > end)
            return false;
        QCoreApplication::processEvents(QEventLoop::WaitForMoreEvents);
    }
    return true;
}

class Window
{
public:
    Window(int blocks, int kinds)
        : file_(folder_.filePath(QStringLiteral("step.hrs")))
        , settings_(folder_.filePath(QStringLiteral("settings.ini")))
        , window_({makePlannerEngine, {}, folder_.path()}, settings_)
    {
        const auto step = makeSyntheticStep({.blocks = blocks, .activation = 8 * MiB, .weight = MiB, .kinds = kinds});
        written_ = writeStepTrace(*step, file_.toStdString()).ok();
        settings_.setCard(std::to_string(StepModel(step).recorded()->peak / 10 * 8) + "B");
        window_.askBeforeClosing(false);
        window_.resize(1600, 1000);
        window_.show();
        QCoreApplication::processEvents();
    }

    bool open()
    {
        if (!written_)
            return false;
        window_.openFile(file_);
        return runUntil([this] { return session().isOpen(); });
    }

    /// Until the plan is there and painted.
    bool planned()
    {
        if (!runUntil([this] { return settled(); }))
            return false;
        QCoreApplication::processEvents();
        return runUntil([this] { return settled(); });
    }
    /// Until the plan is there and painted, perhaps as a draft: on a screen of high density a drag is drawn at scale 1.
    bool shown()
    {
        const auto drawn = [this] {
            return session().answerIsCurrent() && window_.page().timeline()->drawn() && !window_.frames().pending();
        };
        if (!runUntil(drawn))
            return false;
        QCoreApplication::processEvents();
        return runUntil(drawn);
    }
    bool complete()
    {
        return runUntil(
            [this] { return session().frontierIsFinal() && settled() && !session().answer()->preliminary; });
    }

    /// Until the plan for the card and other settings of its allocator are looked for no more.
    bool judged()
    {
        return runUntil([this] { return !window_.cardController().busy() && settled(); });
    }
    bool hasVerdict()
    {
        return runUntil([this] { return session().verdict() != nullptr; });
    }

    Session& session() { return window_.session(); }
    std::size_t ops() { return session().step()->trace().ops.size(); }

private:
    bool settled()
    {
        return session().answerIsCurrent() && window_.page().timeline()->upToDate() && !window_.frames().pending();
    }

    QTemporaryDir folder_;
    QString file_;
    Settings settings_;
    MainWindow window_;
    bool written_ = false;
};

constexpr auto notInTime = "it did not come in a minute";

void openStep(benchmark::State& state)
{
    for (auto _ : state) {
        Window window(static_cast<int>(state.range(0)), static_cast<int>(state.range(1)));
        application().forget();
        const auto begin = Clock::now();
        if (!window.open())
            return state.SkipWithError(notInTime);
        state.counters["shown_ms"] = msSince(begin);
        if (!window.planned())
            return state.SkipWithError(notInTime);
        state.counters["planned_ms"] = msSince(begin);
        if (!window.complete())
            return state.SkipWithError(notInTime);
        state.counters["curve_ms"] = msSince(begin);
        if (!window.judged())
            return state.SkipWithError(notInTime);
        state.counters["judged_ms"] = msSince(begin);
        state.counters["ops"] = static_cast<double>(window.ops());
        application().report(state);
    }
}

void moveBudget(benchmark::State& state, Window& window)
{
    const Bytes least = window.session().leastBudget();
    const Bytes most = window.session().recordedPeak();
    application().forget();
    std::vector<double> shown;
    int move = 0;
    for (auto _ : state) {
        const auto begin = Clock::now();
        const double cpuBegin = cpuMs();
        window.session().dragBudget(least + (most - least) * (++move * 37 % 100) / 100);
        application().count(cpuMs() - cpuBegin, "Session::dragBudget", 0);
        if (!window.shown())
            return state.SkipWithError(notInTime);
        shown.push_back(msSince(begin));
    }
    std::ranges::sort(shown);
    state.counters["shown_p50"] = shown[shown.size() / 2];
    state.counters["shown_p95"] = shown[shown.size() * 95 / 100];
    application().report(state);
}

void dragByModule(benchmark::State& state)
{
    Window window(static_cast<int>(state.range(0)), static_cast<int>(state.range(1)));
    if (!window.open() || !window.complete() || !window.judged())
        return state.SkipWithError(notInTime);
    moveBudget(state, window);
}

/// Moves the handle ten times, each as soon as the plan of the one before is shown, and waits for the last verdict.
void verdictAfterDrag(benchmark::State& state)
{
    Window window(static_cast<int>(state.range(0)), 1);
    if (!window.open() || !window.complete() || !window.judged())
        return state.SkipWithError(notInTime);
    state.counters["ops"] = static_cast<double>(window.ops());
    const Bytes least = window.session().leastBudget();
    const Bytes most = window.session().recordedPeak();
    std::vector<double> rested;
    int runs = 0;
    int move = 0;
    for (auto _ : state) {
        Clock::time_point begin;
        for (int i = 0; i < 10; ++i) {
            begin = Clock::now();
            window.session().dragBudget(least + (most - least) * (++move * 37 % 100) / 100);
            if (!window.shown())
                return state.SkipWithError(notInTime);
        }
        window.session().commitBudget(window.session().budget());
        if (!window.hasVerdict())
            return state.SkipWithError(notInTime);
        rested.push_back(msSince(begin));
        runs += window.session().verdict()->run.runs;
    }
    std::ranges::sort(rested);
    state.counters["verdict_p50"] = rested[rested.size() / 2];
    state.counters["verdict_p95"] = rested[rested.size() * 95 / 100];
    state.counters["verdict_max"] = rested.back();
    state.counters["runs"] = runs;
}

void dragByOp(benchmark::State& state)
{
    Window window(static_cast<int>(state.range(0)), static_cast<int>(state.range(1)));
    if (!window.open() || !window.planned())
        return state.SkipWithError(notInTime);
    application().forget();
    const auto begin = Clock::now();
    window.session().setMode(PlanMode::ops);
    if (!runUntil([&] { return window.session().opsFrontier() != nullptr; }) || !window.planned())
        return state.SkipWithError(notInTime);
    state.counters["draggable_ms"] = msSince(begin); // while more plans are made
    moveBudget(state, window);
}

BENCHMARK(openStep)
    ->Args({96, 1})
    ->Args({1024, 1})
    ->Args({1024, 1024})
    ->Args({2048, 1})
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1);
BENCHMARK(dragByModule)->Args({12, 1})->Args({96, 1})->Args({1024, 1})->Unit(benchmark::kMillisecond)->Iterations(60);
// 465 layers are 20,000 ops.
BENCHMARK(verdictAfterDrag)->Arg(12)->Arg(96)->Arg(465)->Arg(1024)->Unit(benchmark::kMillisecond)->Iterations(40);
BENCHMARK(dragByOp)->Args({1024, 1})->Unit(benchmark::kMillisecond)->Iterations(60);

} // namespace

int main(int argc, char** argv)
{
    WatchedApplication watched(argc, argv);
    benchmark::Initialize(&argc, argv);
    benchmark::RunSpecifiedBenchmarks();
    return 0;
}
