// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// What the timeline costs on a step of a million changes: its parts, a frame, a zoom and a drag from the input to what
// is painted. The GUI thread has 4 ms for its own work, a drag 16 ms in all.

#include "tests/views/made_up.h"
#include "views/plot/timeline_canvas.h"
#include "views/plot/timeline_view.h"
#include "views/theme/theme.h"

#include <QApplication>
#include <QEventLoop>

#include <benchmark/benchmark.h>

using namespace headroom;

namespace {

constexpr QSize plotSize(1400, 480);

MadeUpStep largeStep()
{
    MadeUpStep step;
    step.tensorsPerBlock = 1700; // 96 blocks: 1.1 million changes
    return step;
}

const TimelinePtr& recorded()
{
    static const TimelinePtr timeline = madeUpTimeline(largeStep(), 0);
    return timeline;
}

const TimelinePtr& planned(int which)
{
    static const TimelinePtr timelines[] = {madeUpTimeline(largeStep(), 0.5), madeUpTimeline(largeStep(), 0.55)};
    return timelines[which % 2];
}

const TimelineScene& scene()
{
    static const TimelineScene made = makeScene(recorded(), planned(0));
    return made;
}

TimelineViewport viewport(double share)
{
    const double duration = planned(0)->durationMs;
    return {{duration * 0.2, duration * (0.2 + 0.8 * share)}, plotSize.width()};
}

void buildPyramid(benchmark::State& state)
{
    for (auto _ : state)
        benchmark::DoNotOptimize(TimelinePyramid(recorded()));
    state.counters["changes"] = static_cast<double>(recorded()->changes.size());
}
BENCHMARK(buildPyramid)->Unit(benchmark::kMillisecond);

void queryColumns(benchmark::State& state)
{
    const auto shown = viewport(1.0 / static_cast<double>(state.range(0)));
    for (auto _ : state)
        benchmark::DoNotOptimize(prepareDrawList(scene(), shown));
}
BENCHMARK(queryColumns)->Arg(1)->Arg(10)->Arg(1000)->Unit(benchmark::kMillisecond);

void rasteriseImage(benchmark::State& state)
{
    const auto density = static_cast<double>(state.range(0));
    auto shown = viewport(1);
    shown.columns = static_cast<int>(shown.columns * density);
    const auto list = prepareDrawList(scene(), shown);
    const auto theme = Theme::light();
    const auto bytes = byteRangeFor(recorded()->peak, plotSize.height());
    for (auto _ : state)
        benchmark::DoNotOptimize(rasterise(*list, plotSize * density, bytes, density, theme));
}
BENCHMARK(rasteriseImage)->Arg(1)->Arg(2)->Unit(benchmark::kMillisecond);

// A view whose plot has the size of the others.
class Window
{
public:
    Window()
    {
        view_.setStep(nullptr, recorded());
        view_.setPlanned(planned(0));
        view_.setBudgetRange(20 * GiB, 75 * GiB);
        view_.setBudget(48 * GiB, true);
        view_.resize(plotSize.width() + 158, plotSize.height() + 106);
        view_.show();
        waitUntilPainted();
    }

    TimelineView& view() { return view_; }
    TimelineCanvas& canvas() { return *view_.findChild<TimelineCanvas*>(); }

    // Events are handled as they come, without a pause; painted is when the paint event was handled.
    void waitUntilPainted()
    {
        while (!view_.upToDate())
            QCoreApplication::processEvents(QEventLoop::WaitForMoreEvents);
        QCoreApplication::sendPostedEvents();
        QCoreApplication::processEvents();
    }

private:
    TimelineView view_;
};

void paintFrame(benchmark::State& state)
{
    Window window;
    for (auto _ : state)
        window.canvas().viewport()->repaint();
}
BENCHMARK(paintFrame)->Unit(benchmark::kMillisecond);

void hoverFrame(benchmark::State& state)
{
    Window window;
    auto* viewport = window.canvas().viewport();
    double x = 100;
    for (auto _ : state) {
        x = x > 1200 ? 100 : x + 3;
        QMouseEvent move(QEvent::MouseMove, {x, 200}, viewport->mapToGlobal(QPointF(x, 200)), Qt::NoButton,
                         Qt::NoButton, Qt::NoModifier);
        QCoreApplication::sendEvent(viewport, &move);
        QCoreApplication::processEvents();
    }
}
BENCHMARK(hoverFrame)->Unit(benchmark::kMillisecond);

void zoomInputToPainted(benchmark::State& state)
{
    Window window;
    const double duration = planned(0)->durationMs;
    int step = 0;
    for (auto _ : state) {
        const double share = 0.9 - 0.04 * (step++ % 20);
        window.view().showAll();
        window.view().showRange(duration * 0.05, duration * share);
        window.waitUntilPainted();
    }
}
BENCHMARK(zoomInputToPainted)->Unit(benchmark::kMillisecond)->UseRealTime();

// The solver is not in it: the plans are there already.
void dragInputToPainted(benchmark::State& state)
{
    Window window;
    int which = 0;
    QObject::connect(&window.view(), &TimelineView::budgetDragged, &window.view(),
                     [&] { window.view().setPlanned(planned(++which)); });
    auto& handle = window.canvas().handle();
    handle.beginDrag();
    for (auto _ : state) {
        handle.dragTo((40 + which % 2) * GiB, 1e6, true);
        window.waitUntilPainted();
    }
    handle.cancelDrag();
    state.counters["changes"] = static_cast<double>(planned(0)->changes.size());
}
BENCHMARK(dragInputToPainted)->Unit(benchmark::kMillisecond)->UseRealTime();

} // namespace

int main(int argc, char** argv)
{
    qputenv("QT_QPA_PLATFORM", "offscreen");
    QApplication application(argc, argv);
    applyTheme(application, Theme::light());
    benchmark::Initialize(&argc, argv);
    benchmark::RunSpecifiedBenchmarks();
    return 0;
}
