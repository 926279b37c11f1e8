// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/screenshot.h"

#include "app/window/mainwindow.h"

#include <QDir>
#include <QPixmap>

#include <utility>

namespace headroom {
namespace {

// The plots prepare what they draw on threads of their own and settle within this time.
constexpr int quietMs = 600;

} // namespace

Screenshot::Screenshot(MainWindow& window, QString path, QObject* parent)
    : QObject(parent)
    , window_(window)
    , path_(std::move(path))
{
    quiet_.setSingleShot(true);
    quiet_.setInterval(quietMs);
    connect(&quiet_, &QTimer::timeout, this, &Screenshot::save);
    Session& session = window.session();
    connect(&session, &Session::answerChanged, this, &Screenshot::changed);
    connect(&session, &Session::frontierChanged, this, &Screenshot::changed);
    connect(&window.jobs(), &Jobs::planFailed, this, &Screenshot::failed);
    connect(&window.jobs(), &Jobs::frontierFailed, this, &Screenshot::failed);
    connect(&window, &MainWindow::openFailed, this, &Screenshot::failed);
}

void Screenshot::changed()
{
    if (window_.session().answerIsCurrent() && window_.session().frontier())
        quiet_.start();
}

void Screenshot::save()
{
    if (window_.grab().save(path_, "PNG"))
        Q_EMIT saved();
    else
        Q_EMIT failed(tr("The picture cannot be written to %1.").arg(QDir::toNativeSeparators(path_)));
}

} // namespace headroom
