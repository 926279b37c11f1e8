// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/run_window.h"

#include "app/recording/recorder_program.h"
#include "app/window/card_controller.h"
#include "app/window/document_page.h"
#include "app/window/mainwindow.h"
#include "app/window/measured_controller.h"
#include "app/window/open_step.h"
#include "app/window/plan_controller.h"
#include "core/base/atomic_write.h"
#include "views/plot/timeline_view.h"

#include <QApplication>
#include <QBuffer>
#include <QDir>
#include <QFile>
#include <QIcon>
#include <QPainter>
#include <QPixmap>
#include <QStandardPaths>
#include <QSvgRenderer>
#include <QTemporaryDir>
#include <QTimer>

#include <cstdio>
#include <functional>
#include <memory>
#include <utility>

namespace headroom {
namespace {

/// Waits until the window shows the step, its plan, the frontier and the drawn plots, then saves a picture of the
/// window.
class Screenshot : public QObject
{
public:
    /// Called at the end: `problem` is a sentence; empty: the picture is saved.
    using Done = std::function<void(const QString& problem)>;

    Screenshot(MainWindow& window, const WindowOptions& options, Done done);

private:
    void check();
    void save();

    MainWindow& window_;
    QString path_;
    std::function<Status(const StepTrace&)> checkStep_;
    Done done_;
    QTimer looking_;
    int complete_ = 0; ///< number of consecutive checks at which everything was shown
};

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

Screenshot::Screenshot(MainWindow& window, const WindowOptions& options, Done done)
    : window_(window)
    , path_(options.screenshot)
    , checkStep_(options.checkStep)
    , done_(std::move(done))
{
    connect(&window.planController(), &PlanController::failed, this, done_);
    connect(&window.planController(), &PlanController::frontierFailed, this, done_);
    connect(&window, &MainWindow::openFailed, this, done_);
    connect(&looking_, &QTimer::timeout, this, &Screenshot::check);
    looking_.start(checkMs);
}

void Screenshot::check()
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
    if (const Status right = checkStep_ ? checkStep_(session.step()->trace()) : Status(); !right)
        done_(QString::fromStdString(right.error().message));
    else
        save();
}

void Screenshot::save()
{
    QByteArray png;
    QBuffer buffer(&png);
    window_.grab().save(&buffer, "PNG");
    const Status written = writeAtomically(QFile::encodeName(path_).toStdString(), png.toStdString());
    done_(written ? QString() : QString::fromStdString(written.error().message));
}

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
    window.usePart(options.part, options.profile);
    window.measuredController().useProfile(options.profile);
    if (!options.measured.isEmpty())
        window.compareWith(options.measured);
    if (!options.file.isEmpty())
        window.openFile(options.file, options.budget, options.select, options.ops ? PlanMode::ops : PlanMode::modules);
}

int takeScreenshot(MainWindow& window, const WindowOptions& options)
{
    window.askBeforeClosing(false);
    const Screenshot screenshot(window, options, [](const QString& problem) {
        if (!problem.isEmpty())
            std::fprintf(stderr, "torch-headroom: %s\n", qPrintable(problem));
        QCoreApplication::exit(problem.isEmpty() ? 0 : badInputCode);
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
    if (options.offload)
        settings.setOffload({true, 0});
    MainWindow window({makePlannerEngine, recorderPath(), recordings, samplePath()}, settings);
    applyOptions(window, options);
    if (!picture)
        window.fitScreen();
    window.show();
    return picture ? takeScreenshot(window, options) : QApplication::exec();
}

} // namespace headroom
