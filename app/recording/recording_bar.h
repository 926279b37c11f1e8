// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QElapsedTimer>
#include <QFrame>
#include <QString>
#include <QStringList>
#include <QTimer>

#include <optional>

namespace headroom {

/// Estimates the remaining time of work from the reported share that is done. Gives no estimate until there are
/// enough reports, nor after the estimated time has passed.
class TimeLeft
{
public:
    void report(double seconds, double share); ///< `seconds` from the start; a smaller share restarts the estimate
    std::optional<double> secondsLeft(double seconds) const;

private:
    double firstSeconds_ = 0;
    double firstShare_ = 0;
    double lastSeconds_ = 0;
    double lastShare_ = 0;
    int reports_ = 0;
};

/// "about 20 s left", rounded to the precision of an estimate.
QString timeLeftText(double seconds);

/// "12 s", "3 min 20 s".
QString elapsedText(double seconds);

} // namespace headroom

class QLabel;
class QPlainTextEdit;
class QProgressBar;
class QPushButton;
class QToolButton;

namespace headroom {

/// The line at the top of the window for the running recording: title, progress, elapsed and remaining time, and a
/// drawer with the program's output. After a failure the bar stays with the reason and a button to try again.
class RecordingBar : public QFrame
{
    Q_OBJECT
public:
    static constexpr int lineLimit = 2000; ///< number of last lines that are kept

    explicit RecordingBar(QWidget* parent = nullptr);

    void begin(const QString& title, bool showsOutput);
    void setProgress(double share, const QString& stage); ///< share < 0: not known
    void addLines(const QStringList& lines);
    /// Shows why the recording failed, and what was printed if that has a traceback.
    void showFailure(const QString& reason, bool canChange);
    void finish(); ///< hides the bar

    bool failed() const noexcept { return failed_; }
    QString message() const;
    QString times() const; ///< "12 s, about 20 s left"
    QPushButton* actionButton() const noexcept { return action_; } ///< "Cancel", or "Change options…"
    QToolButton* outputButton() const noexcept { return output_; }
    QPlainTextEdit* log() const noexcept { return log_; }

Q_SIGNALS:
    void cancelWanted();
    void changeWanted(); ///< request to change the options and record again

protected:
    void keyPressEvent(QKeyEvent* event) override;

private:
    void layOut();
    void showOutput();
    void showState();
    void tick();
    void flush();

    QLabel* mark_;
    QLabel* message_;
    QLabel* times_;
    QProgressBar* progress_;
    QToolButton* output_;
    QPushButton* action_;
    QToolButton* close_;
    QPlainTextEdit* log_;
    QString title_;
    QElapsedTimer clock_;
    QTimer ticking_;
    TimeLeft timeLeft_;
    double silentSince_ = 0; ///< time of the last report, in seconds on the clock
    QStringList waiting_; ///< lines to show with the next tick
    bool failed_ = false;
};

} // namespace headroom
