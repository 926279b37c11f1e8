// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/mapped_file.h"
#include "core/base/task_runner.h"
#include "core/compare/step_comparison.h"
#include "core/profile/import.h"
#include "views/widgets/comparison_bar.h"

#include <QObject>

#include <optional>

namespace headroom {

class Session;

/// Compares a measured step with the open one. It reads the file on a worker thread and sets the session's comparison,
/// which stays until another step is opened. If the open step is replaced (other times, another size), it compares
/// again.
class MeasuredController : public QObject
{
    Q_OBJECT
public:
    explicit MeasuredController(Session& session, QObject* parent = nullptr);

    void compare(const QString& path);
    /// Compares if the file is a measured step and the open one is simulated; else emits wanted().
    void compareOrOpen(const QString& path);
    void stop();
    /// The user opens another step. A request that has no answer yet is dropped, since the later one wins. Those that
    /// follow are asked again of that step.
    void beginOpening();
    void endOpening(); ///< no step was opened
    /// Sets which step of a profiler's trace is read, from now on.
    void useProfile(const ProfileRequest& request) { profile_ = request; }
    bool busy() const noexcept { return asked_ != answered_; }
    QString whyNot() const; ///< empty: the open step can be compared

Q_SIGNALS:
    void comparedInstead(); ///< the file was compared, though the user may have wanted to open it
    void failed(const QString& reason); ///< one sentence
    void wanted(const QString& path); ///< request to open the file, which cannot be compared

private:
    struct Request
    {
        QString path; ///< file of the measured step; empty: none
        StepTracePtr measured; ///< null: not read yet
        std::optional<FileStamp> stamp; ///< of the file when it was read
        bool orOpen = false;
        bool isForNextStep = false; ///< another step was being opened when the user asked
    };

    void takeStep();
    void ask(Request request);
    void post();
    void refuse(const QString& reason);
    void forget();

    Session& session_;
    Request request_; ///< the latest that was not refused
    Request shown_; ///< the one whose comparison is shown
    bool opening_ = false; ///< another step is being opened
    ProfileRequest profile_;
    quint64 asked_ = 0;
    quint64 answered_ = 0;
    TaskRunner lane_; ///< the last member: its thread ends before the others are destroyed
};

/// The comparison as text.
ComparisonFacts comparisonFacts(const StepComparison& comparison, const QString& file);

} // namespace headroom
