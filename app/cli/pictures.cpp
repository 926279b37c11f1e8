// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/pictures.h"

#include "views/export/export.h"

#include <QApplication>

#include <array>
#include <cstdio>

namespace headroom::cli {

namespace {

void onlyGrave(QtMsgType type, const QMessageLogContext& /*context*/, const QString& message)
{
    if (type == QtCriticalMsg || type == QtFatalMsg)
        std::fprintf(stderr, "torch-headroom: %s\n", qUtf8Printable(message));
}

} // namespace

void hideDesktopRemarks()
{
    qInstallMessageHandler(onlyGrave);
}

Status withoutDisplay(const std::function<Status()>& draw)
{
    // Also where there is a display: a picture must not depend on it.
    qputenv("QT_QPA_PLATFORM", "offscreen");
    hideDesktopRemarks();
    int count = 1;
    std::string name = "torch-headroom";
    std::array<char*, 2> arguments{name.data(), nullptr};
    const QApplication application(count, arguments.data());
    return draw();
}

Status drawFrontier(const FrontierPicture& frontier, const std::filesystem::path& path)
{
    FrontierExport data;
    data.title = frontier.title;
    data.points = frontier.points;
    data.stepMs = frontier.stepMs;
    return withoutDisplay([&] { return exportFrontier(data, path); });
}

} // namespace headroom::cli
