// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/recording/recording_bar.h"

#include "views/theme/styles.h"

#include <QCoreApplication>
#include <QHBoxLayout>
#include <QKeyEvent>
#include <QLabel>
#include <QPlainTextEdit>
#include <QProgressBar>
#include <QPushButton>
#include <QToolButton>
#include <QVBoxLayout>

#include <cmath>
#include <utility>

namespace headroom {
namespace {

// With less than this the pace would be the pace of the start, or of a single stage.
constexpr double leastSeconds = 2;
constexpr double leastShare = 0.1;
constexpr int leastReports = 3;

constexpr double minute = 60;

QString tr(const char* text)
{
    return QCoreApplication::translate("TimeLeft", text);
}

} // namespace

void TimeLeft::report(double seconds, double share)
{
    if (reports_ == 0 || share < lastShare_) {
        reports_ = 0;
        firstSeconds_ = seconds;
        firstShare_ = share;
    }
    lastSeconds_ = seconds;
    lastShare_ = share;
    ++reports_;
}

std::optional<double> TimeLeft::secondsLeft(double seconds) const
{
    const double took = lastSeconds_ - firstSeconds_;
    const double done = lastShare_ - firstShare_;
    if (reports_ < leastReports || took < leastSeconds || done < leastShare)
        return std::nullopt;
    const double left = took / done * (1 - lastShare_) - (seconds - lastSeconds_);
    return left > 0 ? std::optional(left) : std::nullopt;
}

QString timeLeftText(double seconds)
{
    if (seconds < 10)
        return tr("a few seconds left");
    if (seconds < 55)
        return tr("about %1 s left").arg(static_cast<int>(std::ceil(seconds / 10)) * 10);
    const int minutes = static_cast<int>(std::lround(seconds / minute));
    return minutes <= 1 ? tr("about a minute left") : tr("about %1 min left").arg(minutes);
}

QString elapsedText(double seconds)
{
    const int whole = static_cast<int>(seconds);
    return whole < 60 ? tr("%1 s").arg(whole) : tr("%1 min %2 s").arg(whole / 60).arg(whole % 60);
}

namespace {

constexpr int tickMs = 250;
constexpr int logHeight = 168;
constexpr int leastLogHeight = 60; // on a small screen
constexpr double silenceSeconds = 30; // a recording without output for this long is reported

} // namespace

RecordingBar::RecordingBar(QWidget* parent)
    : QFrame(parent)
    , mark_(makeLabel(this, QStringLiteral("!")))
    , message_(makeLabel(this))
    , times_(makeLabel(this))
    , progress_(makeProgressBar(this))
    , output_(makeSegment(tr("Output"), this))
    , action_(new QPushButton(this))
    , close_(makeCloseButton(tr("Close this message"), this))
    , log_(new QPlainTextEdit(this))
{
    setObjectName(QStringLiteral("recordingBar"));
    message_->setObjectName(QStringLiteral("recordingMessage"));
    times_->setObjectName(QStringLiteral("recordingTimes"));
    output_->setObjectName(QStringLiteral("recordingOutput"));
    action_->setObjectName(QStringLiteral("recordingAction"));
    log_->setObjectName(QStringLiteral("recordingLog"));
    layOut();
    ticking_.setInterval(tickMs);
    connect(&ticking_, &QTimer::timeout, this, &RecordingBar::tick);
    connect(output_, &QToolButton::toggled, log_, &QWidget::setVisible);
    connect(close_, &QToolButton::clicked, this, &RecordingBar::finish);
    connect(action_, &QPushButton::clicked, this, [this] {
        if (failed_)
            Q_EMIT changeWanted();
        else
            Q_EMIT cancelWanted();
    });
    finish();
}

void RecordingBar::layOut()
{
    mark_->setProperty("strong", true);
    message_->setWordWrap(true);
    message_->setTextInteractionFlags(Qt::TextSelectableByMouse);
    times_->setProperty("second", true);
    progress_->setFixedWidth(160);
    progress_->setAccessibleName(tr("Share of the recording that is done"));
    output_->setToolTip(tr("What the script prints"));
    log_->setReadOnly(true);
    log_->setProperty("code", true);
    log_->setFrameShape(QFrame::NoFrame);
    log_->setMaximumBlockCount(lineLimit);
    log_->setMinimumHeight(leastLogHeight);
    log_->setMaximumHeight(logHeight);
    log_->setTabChangesFocus(true);
    log_->setAccessibleName(tr("Output of the recording"));

    auto* row = makeLayout<QHBoxLayout>(nullptr, {12, 6, 6, 6}, 10);
    row->addWidget(mark_);
    row->addWidget(message_, 1);
    row->addWidget(times_);
    row->addWidget(progress_);
    row->addWidget(output_);
    row->addWidget(action_);
    row->addWidget(close_);
    auto* column = makeLayout<QVBoxLayout>(this, {1, 1, 1, 1}, 0);
    column->addLayout(row);
    column->addWidget(log_);
}

void RecordingBar::begin(const QString& title, bool showsOutput)
{
    failed_ = false;
    title_ = title;
    timeLeft_ = {};
    waiting_.clear();
    log_->clear();
    output_->setVisible(showsOutput);
    output_->setChecked(false);
    log_->hide();
    action_->setText(tr("Cancel"));
    action_->setEnabled(true);
    action_->show();
    clock_.start();
    silentSince_ = 0;
    ticking_.start();
    showState();
    setProgress(-1, tr("starting"));
    show();
}

void RecordingBar::setProgress(double share, const QString& stage)
{
    const double now = static_cast<double>(clock_.elapsed()) / 1000;
    silentSince_ = now;
    if (share >= 0)
        timeLeft_.report(now, share);
    message_->setText(share >= 0 ? tr("Recording %1: %2, %3 %").arg(title_, stage).arg(static_cast<int>(100 * share))
                                 : tr("Recording %1: %2").arg(title_, stage));
    setAccessibleName(message_->text());
    showShare(*progress_, share);
    tick();
}

void RecordingBar::addLines(const QStringList& lines)
{
    if (clock_.isValid())
        silentSince_ = static_cast<double>(clock_.elapsed()) / 1000;
    waiting_ << lines;
    if (waiting_.size() > lineLimit)
        waiting_.remove(0, waiting_.size() - lineLimit);
}

void RecordingBar::flush()
{
    if (!waiting_.isEmpty())
        log_->appendPlainText(std::exchange(waiting_, {}).join(QLatin1Char('\n')));
}

void RecordingBar::tick()
{
    flush();
    const double now = static_cast<double>(clock_.elapsed()) / 1000;
    const auto left = timeLeft_.secondsLeft(now);
    QString text = elapsedText(now);
    if (now - silentSince_ >= silenceSeconds)
        text = tr("%1, no word for %2").arg(text, elapsedText(now - silentSince_));
    else if (left)
        text = tr("%1, %2").arg(text, timeLeftText(*left));
    times_->setText(text);
}

void RecordingBar::showFailure(const QString& reason, bool canChange)
{
    ticking_.stop();
    flush();
    failed_ = true;
    message_->setText(reason);
    setAccessibleName(reason);
    action_->setText(tr("Change options…"));
    action_->setEnabled(true);
    action_->setVisible(canChange);
    showOutput();
    showState();
    show();
    announce(*this);
}

void RecordingBar::showOutput()
{
    const QString text = log_->toPlainText();
    output_->setVisible(!text.isEmpty());
    output_->setToolTip(tr("What was printed before"));
    // Tracebacks of Python and of Python's fault handler.
    output_->setChecked(text.contains(QLatin1String("(most recent call ")));
    log_->moveCursor(QTextCursor::End);
}

void RecordingBar::finish()
{
    ticking_.stop();
    flush(); // showFailure() may be called later, for what went wrong after the step
    failed_ = false;
    hide();
}

QString RecordingBar::message() const
{
    return message_->text();
}

QString RecordingBar::times() const
{
    return times_->text();
}

void RecordingBar::showState()
{
    mark_->setVisible(failed_);
    times_->setVisible(!failed_);
    progress_->setVisible(!failed_);
    close_->setVisible(failed_);
    setStyleProperty(*this, "message", failed_ ? QStringLiteral("error") : QStringLiteral("plain"));
}

void RecordingBar::keyPressEvent(QKeyEvent* event)
{
    if (event->key() == Qt::Key_Escape && failed_)
        finish();
    else
        QFrame::keyPressEvent(event);
}

} // namespace headroom
