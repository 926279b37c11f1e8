// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/pictures.h"

#include <QApplication>

#include <array>
#include <cstdio>

namespace headroom::cli {

namespace {

void printOnlyCritical(QtMsgType type, const QMessageLogContext& /*context*/, const QString& message)
{
    if (type == QtCriticalMsg || type == QtFatalMsg)
        std::fprintf(stderr, "torch-headroom: %s\n", qUtf8Printable(message));
}

} // namespace

void hideDesktopRemarks()
{
    qInstallMessageHandler(printOnlyCritical);
}

Result<QString> qtName(const std::string& file)
{
    QString name = QString::fromStdString(file);
    if (name.toStdString() != file)
        return badInput(file + ": the name is not UTF-8, which the window needs: rename the file or its folder");
    return name;
}

Status withoutDisplay(const std::function<Status()>& draw)
{
    // Even with a display: a picture must not depend on the display.
    qputenv("QT_QPA_PLATFORM", "offscreen");
    hideDesktopRemarks();
    int count = 1;
    std::string name = "torch-headroom";
    std::array<char*, 2> arguments{name.data(), nullptr};
    const QApplication application(count, arguments.data());
    return draw();
}

Status drawFrontier(const FrontierExport& frontier, const std::filesystem::path& path, const ExportOptions& options)
{
    return withoutDisplay([&] { return exportFrontier(frontier, path, options); });
}

Status drawFit(const FitExport& fit, const std::filesystem::path& path)
{
    return withoutDisplay([&] { return exportFit(fit, path); });
}

} // namespace headroom::cli
