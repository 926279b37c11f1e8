// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// A drag of the budget in the whole window: from the input to the plan painted in tree, inspector, budget bar and
// plots, and how long the GUI thread is held by one answer. Run with QT_QPA_PLATFORM=offscreen.

#include "app/window/card_controller.h"
#include "app/window/document_page.h"
#include "app/window/mainwindow.h"
#include "app/window/open_step.h"
#include "core/predict/step_model.h"
#include "core/trace/step_file.h"
#include "tests/core/synthetic_step.h"
#include "views/plot/timeline_canvas.h"
#include "views/plot/timeline_view.h"

#include <benchmark/benchmark.h>

#include <QApplication>
#include <QEventLoop>
#include <QTemporaryDir>

#include <algorithm>
#include <chrono>
#include <vector>

using namespace headroom;

namespace {

using Clock = std::chrono::steady_clock;

double msSince(Clock::time_point begin)
{
    return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

template <class Condition>
void runUntil(Condition condition)
{
    while (!condition())
        QCoreApplication::processEvents(QEventLoop::WaitForMoreEvents);
}

/// A window with a step of `blocks` blocks open.
class OpenWindow : public QObject
{
public:
    explicit OpenWindow(const SyntheticOptions& options)
        : settings_(folder_.filePath(QStringLiteral("settings.ini")))
        , window_({makePlannerEngine, {}, folder_.path()}, settings_)
    {
        const QString file = folder_.filePath(QStringLiteral("step.hrs"));
        const StepTracePtr step = makeSyntheticStep(options);
        if (!writeStepTrace(*step, file.toStdString()))
            return;
        settings_.setCard(std::to_string(StepModel(step).recorded()->peak / 10 * 8) + "B"); // some plans run there
        window_.askBeforeClosing(false);
        window_.resize(1600, 1000);
        window_.show();
        TimelineView& timeline = *window_.page().timeline();
        connect(&timeline, &TimelineView::prepared, this, [this] { painted_ = false; });
        timeline.findChild<TimelineCanvas*>()->viewport()->installEventFilter(this);
        window_.openFile(file);
        runUntil([this] {
            return window_.session().isOpen() && window_.session().frontier() && !window_.cardController().busy()
                && painted();
        });
    }

    /// The plan for the budget as it stands is on the screen. On a dense one it may be a draft, which a drag shows
    /// until it rests.
    bool painted() { return window_.session().answerIsCurrent() && window_.page().timeline()->drawn() && painted_; }
    Session& session() { return window_.session(); }

protected:
    bool eventFilter(QObject* watched, QEvent* event) override
    {
        painted_ = painted_ || event->type() == QEvent::Paint;
        return QObject::eventFilter(watched, event);
    }

private:
    bool painted_ = false;
    QTemporaryDir folder_;
    Settings settings_;
    MainWindow window_;
};

void report(benchmark::State& state, std::vector<double> ms)
{
    std::sort(ms.begin(), ms.end());
    state.counters["p50_ms"] = ms[ms.size() / 2];
    state.counters["p95_ms"] = ms[ms.size() * 95 / 100];
}

SyntheticOptions blocksOf(benchmark::State& state)
{
    return {.blocks = static_cast<int>(state.range(0)), .activation = 96 * MiB, .weight = 12 * MiB};
}

/// One move of the handle until all of the window shows the plan for it.
void dragToPainted(benchmark::State& state)
{
    OpenWindow window(blocksOf(state));
    const Bytes least = window.session().leastBudget();
    const Bytes most = window.session().recordedPeak();
    std::vector<double> ms;
    int move = 0;
    for (auto _ : state) {
        const auto begin = Clock::now();
        window.session().dragBudget(least + (most - least) * (++move * 37 % 100) / 100);
        runUntil([&] { return window.painted(); });
        ms.push_back(msSince(begin));
    }
    report(state, std::move(ms));
}

/// What one answer costs the GUI thread.
void applyAnswer(benchmark::State& state)
{
    OpenWindow window(blocksOf(state));
    std::vector<PlanAnswerPtr> answers;
    for (const int percent : {30, 70}) {
        window.session().dragBudget(window.session().recordedPeak() * percent / 100);
        runUntil([&] { return window.painted(); });
        answers.push_back(window.session().answer());
    }
    std::vector<double> ms;
    std::size_t turn = 0;
    for (auto _ : state) {
        const auto begin = Clock::now();
        window.session().setAnswer(answers[++turn % 2]);
        ms.push_back(msSince(begin));
    }
    report(state, std::move(ms));
}

BENCHMARK(dragToPainted)->Arg(12)->Arg(96)->Unit(benchmark::kMillisecond)->Iterations(200);
BENCHMARK(applyAnswer)->Arg(12)->Arg(96)->Unit(benchmark::kMillisecond)->Iterations(200);

} // namespace

int main(int argc, char** argv)
{
    QApplication application(argc, argv);
    benchmark::Initialize(&argc, argv);
    benchmark::RunSpecifiedBenchmarks();
    return 0;
}
