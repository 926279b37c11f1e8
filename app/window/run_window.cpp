// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/run_window.h"

#include "app/recording/recorder_program.h"
#include "app/window/mainwindow.h"
#include "app/window/measured_controller.h"
#include "app/window/screenshot.h"
#include "app/window/step_engine.h"

#include <QApplication>
#include <QDir>
#include <QIcon>
#include <QPainter>
#include <QPixmap>
#include <QStandardPaths>
#include <QSvgRenderer>
#include <QTemporaryDir>

#include <cstdio>
#include <memory>

namespace headroom {
namespace {

constexpr int badInputCode = static_cast<int>(ErrorKind::badInput);

/// A screenshot needs no display: without one Qt draws into memory.
void chooseOffscreen()
{
#ifdef Q_OS_LINUX
    const bool display = qEnvironmentVariableIsSet("DISPLAY") || qEnvironmentVariableIsSet("WAYLAND_DISPLAY");
    if (!display && !qEnvironmentVariableIsSet("QT_QPA_PLATFORM"))
        qputenv("QT_QPA_PLATFORM", "offscreen");
#endif
}

QString recorderPath()
{
    const auto found = recorderProgram();
    return found ? QString::fromStdU16String(found->u16string())
                 : QDir(QCoreApplication::applicationDirPath()).filePath(QStringLiteral("torch-headroom-record"));
}

/// The step that comes with Headroom: installed, or beside the sources that the program was built from.
QString samplePath()
{
    const QDir folder(QCoreApplication::applicationDirPath());
    const QString installed = folder.filePath(QStringLiteral("../share/torch-headroom/samples/transformer.hrs"));
    return QDir::cleanPath(QFile::exists(installed)
                               ? installed
                               : folder.filePath(QStringLiteral("../../resources/samples/transformer.hrs")));
}

/// The program's icon. Without this icon, a window has an icon only if Headroom is installed, from the desktop file.
/// The icon is drawn here, since Qt's plugin that reads SVG icons may be missing.
QIcon programIcon()
{
    QSvgRenderer drawing(QStringLiteral(":/headroom/icons/headroom.svg"));
    QIcon icon;
    for (const int size : {16, 24, 32, 48, 64, 128, 256}) {
        QPixmap picture(size, size);
        picture.fill(Qt::transparent);
        QPainter painter(&picture);
        drawing.render(&painter);
        painter.end();
        icon.addPixmap(picture);
    }
    return icon;
}

void applyOptions(MainWindow& window, const WindowOptions& options)
{
    if (!options.theme.isEmpty())
        window.theme().useOnce(themeNamed(options.theme));
    if (options.size.isValid())
        window.resize(options.size);
    window.useTimes(options.times);
    window.usePart(options.part);
    window.measuredController().useProfile(options.profile);
    if (!options.measured.isEmpty())
        window.compareWith(options.measured);
    if (!options.file.isEmpty())
        window.openFile(options.file, options.budget, options.select, options.ops ? PlanMode::ops : PlanMode::modules);
}

int takeScreenshot(MainWindow& window, const WindowOptions& options)
{
    window.askBeforeClosing(false);
    Screenshot screenshot(window, options.screenshot);
    QObject::connect(&screenshot, &Screenshot::saved, qApp, &QCoreApplication::quit);
    QObject::connect(&screenshot, &Screenshot::failed, qApp, [](const QString& reason) {
        std::fprintf(stderr, "torch-headroom: %s\n", qPrintable(reason));
        QCoreApplication::exit(badInputCode);
    });
    return QApplication::exec();
}

} // namespace

int runWindow(int& argc, char** argv, const WindowOptions& options)
{
    const bool picture = !options.screenshot.isEmpty();
    if (picture)
        chooseOffscreen();
    QApplication application(argc, argv);
    QApplication::setApplicationName(QStringLiteral("torch-headroom"));
    QApplication::setApplicationDisplayName(QStringLiteral("Headroom"));
    QApplication::setApplicationVersion(QStringLiteral(HEADROOM_VERSION));
    QApplication::setOrganizationName(QStringLiteral("Headroom"));
    QApplication::setDesktopFileName(QStringLiteral("org.headroom.Headroom"));
    QApplication::setWindowIcon(programIcon());

    // A screenshot shows the window with the default settings, and does not change the user's.
    const auto temporary = picture ? std::make_unique<QTemporaryDir>() : nullptr;
    Settings settings = picture ? Settings(temporary->filePath(QStringLiteral("settings.ini"))) : Settings();
    const QString data = QStandardPaths::writableLocation(QStandardPaths::AppLocalDataLocation);
    const QString recordings = QDir(data).filePath(QStringLiteral("recordings"));
    if (!options.card.empty())
        settings.setCard(options.card);
    MainWindow window({makePlannerEngine, recorderPath(), recordings, samplePath()}, settings);
    applyOptions(window, options);
    if (!picture)
        window.fitScreen();
    window.show();
    return picture ? takeScreenshot(window, options) : QApplication::exec();
}

} // namespace headroom
