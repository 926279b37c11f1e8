// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// Renders the plots and the budget bar on a made-up step, light and dark and at several sizes, as PNG files to look at.
// Usage: views_gallery FOLDER [STEP.hrs] (QT_QPA_PLATFORM=offscreen; QT_SCALE_FACTOR=2 for a dense screen).

#include "core/predict/predict.h"
#include "core/trace/step_file.h"
#include "tests/core/synthetic_step.h"
#include "tests/views/made_up.h"
#include "views/export/export.h"
#include "views/plot/budget_steps.h"
#include "views/plot/timeline_view.h"
#include "views/plot/tradeoff_view.h"
#include "views/theme/theme.h"
#include "views/widgets/budget_bar.h"

#include <QAbstractScrollArea>
#include <QApplication>
#include <QDir>
#include <QEventLoop>
#include <QFrame>
#include <QMouseEvent>
#include <QTimer>
#include <QVBoxLayout>

#include <cstdio>

using namespace headroom;

namespace {

struct Page : QWidget
{
    TimelineView* timeline;
    TradeOffView* tradeOff;
    BudgetBar* bar;

    Page()
    {
        auto* column = new QVBoxLayout(this);
        column->setContentsMargins(12, 12, 12, 12);
        column->setSpacing(10);
        timeline = add(column, new TimelineView, 6);
        tradeOff = add(column, new TradeOffView, 4);
        bar = add(column, new BudgetBar, 0);
    }

    template <class View>
    View* add(QVBoxLayout* column, View* view, int stretch)
    {
        auto* card = new QFrame;
        card->setProperty("card", true);
        auto* inside = new QVBoxLayout(card);
        inside->setContentsMargins(1, 1, 1, 1);
        inside->addWidget(view);
        column->addWidget(card, stretch);
        return view;
    }
};

void settle(const TimelineView& view)
{
    QEventLoop loop;
    QTimer timer;
    timer.setTimerType(Qt::PreciseTimer);
    QObject::connect(&timer, &QTimer::timeout, &loop, [&] {
        if (view.upToDate())
            loop.quit();
    });
    timer.start(20);
    loop.exec();
}

void mouse(TimelineView& view, QEvent::Type type, double share, Qt::MouseButton button)
{
    auto* viewport = view.findChild<QAbstractScrollArea*>()->viewport();
    const QPointF at(46 + share * (viewport->width() - 138), viewport->height() * 0.45);
    QMouseEvent event(type, at, viewport->mapToGlobal(at), button, button, Qt::NoModifier);
    QCoreApplication::sendEvent(viewport, &event);
}

void hover(TimelineView& view, double share)
{
    mouse(view, QEvent::MouseMove, share, Qt::NoButton);
}

// Zooms to a third of the step, selects a stretch and pins an instant.
void work(TimelineView& view)
{
    view.showRange(200, 420);
    settle(view);
    mouse(view, QEvent::MouseButtonPress, 0.3, Qt::LeftButton);
    mouse(view, QEvent::MouseMove, 0.55, Qt::LeftButton);
    mouse(view, QEvent::MouseButtonRelease, 0.55, Qt::LeftButton);
    hover(view, 0.8);
}

void shoot(const QString& folder, const QString& name, bool dark, QSize size, const MadeUpStep& step, double discarded,
           double hovered)
{
    applyTheme(*qApp, Theme::make(dark));
    Page page;
    page.resize(size);
    page.timeline->setStep(nullptr, madeUpTimeline(step, 0));
    const auto frontier = madeUpFrontier(step);
    const Bytes least = frontier.front().peak;
    const Bytes most = frontier.back().peak;
    page.timeline->setBudgetRange(least / 2, most * 21 / 20);
    page.bar->setRange(least, most, least / 2, most * 21 / 20);
    page.bar->setFrontier(frontier);
    page.tradeOff->setModules(madeUpModules(step));
    page.tradeOff->select("GPT.layers.42");
    PlanAnswer answer;
    Plan& plan = answer.plan;
    plan = madeUpPlan(step, std::min(discarded, 1.0));
    if (discarded > 1) { // asks for too little
        page.timeline->setPlanned(madeUpTimeline(step, 1));
        page.timeline->setBudget(least * 8 / 10, false);
        plan.status = PlanStatus::infeasible;
        page.bar->setBudget(least * 8 / 10);
        page.bar->setResult(&answer, false);
    } else if (discarded > 0) {
        page.timeline->setPlanned(madeUpTimeline(step, discarded));
        page.timeline->setBudget(plan.budget, true);
        page.bar->setBudget(plan.budget);
        page.bar->setResult(&answer, false);
        page.tradeOff->setPlan(madeUpPoints(madeUpModules(step), plan), plan.msPerGiB);
    } else {
        page.timeline->setBudget(most, true);
        page.bar->setBudget(most);
    }
    page.show();
    settle(*page.timeline);
    if (hovered < 0)
        work(*page.timeline);
    if (hovered > 0)
        hover(*page.timeline, hovered);
    page.grab().save(QDir(folder).filePath(name + QStringLiteral(".png")));
}

StepTracePtr largeSynthetic()
{
    SyntheticOptions options;
    options.blocks = 32;
    options.activation = 48 * MiB;
    options.weight = 24 * MiB;
    return makeSyntheticStep(options);
}

// A predicted step, stacked by category or by module, with a plan where it has transformer blocks.
void shootStep(const QString& folder, const QString& name, const StepTracePtr& trace, bool dark,
               TimelineView::Grouping grouping)
{
    applyTheme(*qApp, Theme::make(dark));
    const auto recorded = std::make_shared<const Timeline>(*predict(*trace, {}));
    CheckpointPlan plan;
    for (std::uint32_t i = 0; i < trace->modules.size(); ++i) {
        if (trace->strings[trace->modules.type[ModuleId(i)]] == "TransformerBlock" && plan.size() < 14)
            plan.push_back({ModuleId(i), {}});
    }
    Page page;
    page.resize(1000, 900);
    page.timeline->setStep(trace, recorded);
    page.timeline->setGrouping(grouping);
    if (!plan.empty())
        page.timeline->setPlanned(std::make_shared<const Timeline>(*predict(*trace, plan)));
    page.timeline->setBudget(recorded->peak * 8 / 10, true);
    page.show();
    settle(*page.timeline);
    hover(*page.timeline, 0.5);
    page.timeline->grab().save(QDir(folder).filePath(name + QStringLiteral(".png")));
}

// Every exported picture in every format.
void exportAll(const QString& folder, const MadeUpStep& step)
{
    const auto recorded = madeUpTimeline(step, 0);
    const auto planned = madeUpTimeline(step, 0.5);
    const auto plan = madeUpPlan(step, 0.5);
    const auto frontier = madeUpFrontier(step);
    for (const std::string suffix : {".svg", ".pdf", ".png", ".csv"}) {
        for (const bool dark : {false, true}) {
            ExportOptions options;
            options.dark = dark;
            const auto path = [&](const char* name) {
                return std::filesystem::path(folder.toStdString()) / (name + std::string(dark ? "_dark" : "") + suffix);
            };
            const Status drawn[]
                = {exportTimeline({"gpt-96L, batch 4, A100 80 GB", nullptr, recorded, planned, plan.budget},
                                  path("timeline"), options),
                   exportTradeOff({"gpt-96L", madeUpModules(step), "GPT.layers.42",
                                   madeUpPoints(madeUpModules(step), plan), plan.msPerGiB},
                                  path("tradeoff"), options),
                   exportTradeOff({"gpt-96L", madeUpModules(step), ""}, path("tradeoff_all"), options),
                   exportFrontier({"gpt-96L", frontier, plan.stepMs, plan.budget}, path("frontier"), options)};
            for (const auto& status : drawn) {
                if (!status)
                    std::fprintf(stderr, "%s\n", status.error().message.c_str());
            }
        }
    }
}

} // namespace

int main(int argc, char** argv)
{
    QApplication application(argc, argv);
    if (argc != 2 && argc != 3) {
        std::fputs("usage: views_gallery FOLDER [STEP.hrs]\n", stderr);
        return 2;
    }
    const auto folder = QString::fromLocal8Bit(argv[1]);
    const MadeUpStep large;
    const MadeUpStep small{6, 5, 2e-3};
    shoot(folder, QStringLiteral("light_plan"), false, {920, 900}, large, 0.5, 0.62);
    shoot(folder, QStringLiteral("dark_plan"), true, {920, 900}, large, 0.5, 0.62);
    shoot(folder, QStringLiteral("light_infeasible"), false, {920, 900}, large, 1.1, 0.95);
    shoot(folder, QStringLiteral("dark_recorded"), true, {560, 700}, large, 0, 0);
    shoot(folder, QStringLiteral("light_narrow"), false, {560, 640}, large, 0.8, 0.3);
    shoot(folder, QStringLiteral("light_small"), false, {1100, 800}, small, 0.45, 0.5);
    shoot(folder, QStringLiteral("dark_wide"), true, {1900, 1300}, large, 0.3, 0.34);
    exportAll(folder, large);
    const auto byModule = TimelineView::Grouping::module;
    shootStep(folder, QStringLiteral("light_modules"), largeSynthetic(), false, byModule);
    shootStep(folder, QStringLiteral("dark_modules"), largeSynthetic(), true, byModule);
    if (argc == 3) {
        const auto trace = readStepTrace(argv[2]);
        if (!trace) {
            std::fprintf(stderr, "%s\n", trace.error().message.c_str());
            return 2;
        }
        shootStep(folder, QStringLiteral("step_modules"), *trace, false, byModule);
        shootStep(folder, QStringLiteral("step_categories"), *trace, true, TimelineView::Grouping::category);
    }
    shoot(folder, QStringLiteral("light_zoomed"), false, {1100, 900}, large, 0.5, -1);
    return 0;
}
