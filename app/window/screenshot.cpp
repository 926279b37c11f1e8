// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/screenshot.h"

#include "app/window/card_controller.h"
#include "app/window/document_page.h"
#include "app/window/mainwindow.h"
#include "app/window/measured_controller.h"
#include "app/window/plan_controller.h"
#include "core/base/atomic_write.h"
#include "views/plot/timeline_view.h"

#include <QBuffer>
#include <QFile>
#include <QPixmap>

#include <utility>

namespace headroom {
namespace {

constexpr int checkMs = 30; // time between two checks whether everything is shown
constexpr int checks = 5; // consecutive checks that must succeed: layout and repaints take a while

/// Whether all parts of a plan by op are there: the plan is of the latest frontier, and the policy is made.
bool opsAreThere(const Session& session)
{
    if (session.mode() == PlanMode::modules)
        return true;
    const bool policy = session.opsPolicy() || !session.feasible();
    return session.answer()->ops->frontier == session.opsFrontier() && policy;
}

} // namespace

Screenshot::Screenshot(MainWindow& window, QString path, QObject* parent)
    : QObject(parent)
    , window_(window)
    , path_(std::move(path))
{
    connect(&window.planController(), &PlanController::failed, this, &Screenshot::failed);
    connect(&window.planController(), &PlanController::frontierFailed, this, &Screenshot::failed);
    connect(&window, &MainWindow::openFailed, this, &Screenshot::failed);
    connect(&looking_, &QTimer::timeout, this, &Screenshot::look);
    looking_.start(checkMs);
}

void Screenshot::look()
{
    const Session& session = window_.session();
    const bool complete = session.answerIsCurrent() && !session.answer()->preliminary && session.frontierIsFinal()
        && window_.page().timeline()->upToDate() && !window_.measuredController().busy()
        && !window_.cardController().busy();
    const bool refused = session.mode() == PlanMode::ops && !session.whyNoOps().isEmpty();
    complete_ = (complete && opsAreThere(session)) || refused ? complete_ + 1 : 0;
    if (complete_ < checks)
        return;
    looking_.stop();
    save();
}

void Screenshot::save()
{
    QByteArray png;
    QBuffer buffer(&png);
    window_.grab().save(&buffer, "PNG");
    const Status written = writeAtomically(QFile::encodeName(path_).toStdString(), png.toStdString());
    if (written)
        Q_EMIT saved();
    else
        Q_EMIT failed(QString::fromStdString(written.error().message));
}

} // namespace headroom
