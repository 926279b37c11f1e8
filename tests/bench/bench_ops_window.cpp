// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// A step of 50,000 ops planned by op in the whole window: how long until there is something to drag and until all plans
// are there, how long one move of the handle takes until all of the window shows the plan for it, and how long the GUI
// thread is held by the longest event meanwhile. Run with QT_QPA_PLATFORM=offscreen.

#include "app/window/document_page.h"
#include "app/window/mainwindow.h"
#include "app/window/planner_engine.h"
#include "core/trace/step_file.h"
#include "tests/core/synthetic_step.h"
#include "views/plot/timeline_view.h"

#include <benchmark/benchmark.h>

#include <QApplication>
#include <QEventLoop>
#include <QTemporaryDir>

#include <algorithm>
#include <chrono>
#include <optional>
#include <vector>

using namespace headroom;

namespace {

using Clock = std::chrono::steady_clock;

double msSince(Clock::time_point begin)
{
    return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

/// Knows how long its thread was held by one event.
class WatchedApplication : public QApplication
{
public:
    using QApplication::QApplication;

    bool notify(QObject* receiver, QEvent* event) override
    {
        if (depth_ > 0)
            return QApplication::notify(receiver, event);
        ++depth_;
        const auto begin = Clock::now();
        const QByteArray name = receiver->metaObject()->className();
        const int type = event->type();
        const bool handled = QApplication::notify(receiver, event);
        const double took = msSince(begin);
        if (took > longest_) {
            longest_ = took;
            culprit_ = name + " event " + QByteArray::number(type);
        }
        --depth_;
        return handled;
    }

    /// Of one event since the last call, and whose.
    std::pair<double, QByteArray> takeLongest()
    {
        return {std::exchange(longest_, 0), std::exchange(culprit_, {})};
    }

private:
    int depth_ = 0;
    double longest_ = 0;
    QByteArray culprit_;
};

WatchedApplication& application()
{
    return *static_cast<WatchedApplication*>(QCoreApplication::instance());
}

template <class Condition>
void runUntil(Condition condition)
{
    while (!condition())
        QCoreApplication::processEvents(QEventLoop::WaitForMoreEvents);
}

SyntheticOptions longStep()
{
    SyntheticOptions options{.blocks = 1, .activation = 8 * MiB, .weight = MiB};
    while (makeSyntheticStep(options)->ops.size() < 50'000)
        options.blocks *= 2;
    return options;
}

/// A window with a step of 50,000 ops open, planned by module.
class OpenWindow
{
public:
    OpenWindow()
        : settings_(folder_.filePath(QStringLiteral("settings.ini")))
        , window_({makePlannerEngine, {}, folder_.path()}, settings_)
    {
        const QString file = folder_.filePath(QStringLiteral("step.hrs"));
        if (!writeStepTrace(*makeSyntheticStep(longStep()), file.toStdString()))
            return;
        window_.askBeforeClosing(false);
        window_.resize(1600, 1000);
        window_.show();
        window_.openFile(file);
        runUntil([this] { return session().isOpen() && session().frontier() && settled(); });
    }

    bool settled() { return session().answerIsCurrent() && window_.page().timeline()->upToDate(); }
    Session& session() { return window_.session(); }

private:
    QTemporaryDir folder_;
    Settings settings_;
    MainWindow window_;
};

void reportLongest(benchmark::State& state)
{
    const auto [ms, culprit] = application().takeLongest();
    state.counters["longest_event_ms"] = ms;
    state.SetLabel(culprit.toStdString());
}

void openTheMode(benchmark::State& state)
{
    OpenWindow window;
    application().takeLongest();
    for (auto _ : state) {
        const auto begin = Clock::now();
        window.session().setMode(PlanMode::ops);
        runUntil([&] { return window.session().opsFrontier() && window.settled(); });
        state.counters["draggable_ms"] = msSince(begin);
        runUntil([&] { return window.session().opsFrontier()->complete && window.settled(); });
        state.counters["complete_ms"] = msSince(begin);
    }
    state.counters["ops"] = static_cast<double>(window.session().step()->trace().ops.size());
    state.counters["plans"] = static_cast<double>(window.session().opsFrontier()->plans.size());
    reportLongest(state);
}

void drag(benchmark::State& state)
{
    OpenWindow window;
    window.session().setMode(PlanMode::ops);
    runUntil([&] {
        return window.session().opsFrontier() && window.session().opsFrontier()->complete && window.settled();
    });
    application().takeLongest();
    const Bytes least = window.session().leastBudget();
    const Bytes most = window.session().recordedPeak();
    std::vector<double> held;
    std::vector<double> shown;
    int move = 0;
    for (auto _ : state) {
        const auto begin = Clock::now();
        window.session().dragBudget(least + (most - least) * (++move * 37 % 100) / 100);
        held.push_back(msSince(begin));
        runUntil([&] { return window.settled(); });
        shown.push_back(msSince(begin));
    }
    std::ranges::sort(held);
    std::ranges::sort(shown);
    state.counters["held_by_move_ms"] = held.back();
    state.counters["shown_p50_ms"] = shown[shown.size() / 2];
    state.counters["shown_p95_ms"] = shown[shown.size() * 95 / 100];
    reportLongest(state);
}

BENCHMARK(openTheMode)->Unit(benchmark::kMillisecond)->Iterations(1);
BENCHMARK(drag)->Unit(benchmark::kMillisecond)->Iterations(100);

} // namespace

int main(int argc, char** argv)
{
    WatchedApplication watched(argc, argv);
    benchmark::Initialize(&argc, argv);
    benchmark::RunSpecifiedBenchmarks();
    return 0;
}
