// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/manual_controller.h"

#include "app/recording/record_dialog.h"
#include "app/recording/recording_bar.h"
#include "app/window/document_page.h"
#include "app/window/mainwindow.h"
#include "app/window/settings.h"
#include "app/window/snapshot_dialog.h"
#include "app/window/step_header.h"
#include "views/manual/manual_window.h"
#include "views/plot/timeline_view.h"
#include "views/widgets/allocator_panel.h"
#include "views/widgets/budget_bar.h"
#include "views/widgets/comparison_bar.h"
#include "views/widgets/fit_panel.h"
#include "views/widgets/inspector.h"
#include "views/widgets/inspector_parts.h"
#include "views/widgets/lower_panel.h"
#include "views/widgets/module_panel.h"
#include "views/widgets/ops_panel.h"
#include "views/widgets/size_fields.h"

#include <QAction>
#include <QApplication>
#include <QChildEvent>

namespace headroom {
namespace {

constexpr auto linkProperty = "manualLink";
const auto settingsName = QStringLiteral("manual");

void setLink(QWidget* widget, const char* link)
{
    widget->setProperty(linkProperty, QString::fromLatin1(link));
}

} // namespace

ManualController::ManualController(MainWindow& window, Settings& settings, QAction& wanted)
    : QObject(&window)
    , settings_(settings)
    , wanted_(wanted)
{
    nameLinks(window);
    window.installEventFilter(this);
    connect(&wanted, &QAction::triggered, this, &ManualController::open);
}

ManualController::~ManualController() = default;

/// Names the page of each part of the window. A widget inside of a part has the part's page.
void ManualController::nameLinks(MainWindow& window)
{
    DocumentPage& page = window.page();
    Inspector* inspector = page.inspector();
    setLink(&window.startPage(), "tour.md");
    setLink(&window.recordingBar(), "record-script.md#when-the-script-ends-early");
    setLink(page.header(), "window.md#header");
    setLink(page.header()->sizes(), "record-model.md#in-the-window");
    setLink(page.comparisonBar(), "gpu.md#compare-with-the-prediction");
    setLink(page.modules(), "window.md#modules");
    setLink(page.timeline(), "window.md#timeline");
    setLink(page.lowerPanel(), "window.md#below-the-timeline");
    setLink(page.lowerPanel()->findChild<AllocatorPanel*>(), "allocator.md#in-the-window");
    setLink(page.lowerPanel()->findChild<FitPanel*>(), "window.md#fit");
    setLink(inspector, "window.md#inspector");
    setLink(inspector->opsPanel(), "ops.md#in-the-window");
    setLink(inspector->solverChoice(), "ops.md#in-the-window");
    setLink(inspector->verifyRow(), "plan.md#verify");
    setLink(page.budgetBar(), "window.md#budget-bar");
}

QString ManualController::linkOf(const QWidget* widget)
{
    for (; widget; widget = widget->parentWidget()) {
        if (const QVariant link = widget->property(linkProperty); link.isValid())
            return link.toString();
    }
    return {};
}

void ManualController::open()
{
    const QString link = linkOf(QApplication::focusWidget());
    if (!manual_) {
        manual_ = std::make_unique<ManualWindow>();
        manual_->resize(manual_->sizeHint());
        manual_->restoreGeometry(settings_.layout(settingsName));
    }
    manual_->showLink(link);
    manual_->show();
    manual_->raise();
    manual_->activateWindow();
    manual_->view()->setFocus();
}

void ManualController::close()
{
    if (!manual_)
        return;
    settings_.setLayout(settingsName, manual_->saveGeometry());
    manual_->close();
}

/// Gives a dialog its manual page and the action that opens the page: a modal dialog does not have the window's
/// actions.
bool ManualController::eventFilter(QObject* watched, QEvent* event)
{
    if (event->type() == QEvent::ChildPolished) {
        QObject* child = static_cast<QChildEvent*>(event)->child();
        if (auto* record = qobject_cast<RecordDialog*>(child)) {
            setLink(record, record->request().isScript() ? "record-script.md" : "record-model.md");
            record->addAction(&wanted_);
        } else if (auto* part = qobject_cast<SnapshotDialog*>(child)) {
            setLink(part, "snapshots.md#a-part-of-a-large-one");
            part->addAction(&wanted_);
        }
    }
    return QObject::eventFilter(watched, event);
}

} // namespace headroom
