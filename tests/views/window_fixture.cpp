// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/views/window_fixture.h"

#include "app/window/document_page.h"
#include "core/predict/predict.h"
#include "core/trace/step_file.h"
#include "tests/core/synthetic_step.h"
#include "views/widgets/inspector.h"

#include <QLabel>
#include <QTest>

namespace headroom {

WindowFixture::WindowFixture()
    : file_(folder_.filePath(QStringLiteral("step.hrs")))
{
    const StepTracePtr step = makeSyntheticStep({.blocks = 8, .activation = 64 * MiB, .weight = 8 * MiB});
    if (!writeStepTrace(*step, file_.toStdString()))
        qFatal("the step cannot be written to %s", qPrintable(file_));
    peak_ = predict(*step, {}).value().peak;
}

void WindowFixture::init()
{
    forgetSettings();
    makeWindow();
}

void WindowFixture::forgetSettings()
{
    static int number = 0;
    settingsFile_ = folder_.filePath(QStringLiteral("settings%1.ini").arg(++number));
    settings_ = std::make_unique<Settings>(settingsFile_);
    settings_->setTheme(ThemeChoice::light);
}

void WindowFixture::makeWindow()
{
    settings_ = std::make_unique<Settings>(settingsFile_);
    control_ = std::make_shared<BlockEngine::Control>();
    const auto make
        = [control = control_](StepTracePtr trace) { return BlockEngine::create(std::move(trace), control); };
    window_ = std::make_unique<MainWindow>(
        MainWindow::Parts{make, QStringLiteral(HEADROOM_SOURCE_DIR "/tests/views/fake_recorder.sh"),
                          folder_.filePath(QStringLiteral("recordings"))},
        *settings_);
    window_->askBeforeClosing(false);
    window_->show();
    QVERIFY(QTest::qWaitForWindowExposed(window_.get()));
}

void WindowFixture::destroyWindow()
{
    window_.reset();
    settings_.reset();
}

void WindowFixture::openStep()
{
    window_->openFile(file_, peak_ * 7 / 10); // a plan changes something
    QTRY_VERIFY(window_->session().isOpen() && window_->session().answerIsCurrent());
}

QString WindowFixture::inspectorText(const char* label)
{
    return window_->page().inspector()->findChild<QLabel*>(QString::fromLatin1(label))->text();
}

} // namespace headroom
