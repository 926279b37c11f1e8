// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/mapped_file.h"
#include "core/base/task_runner.h"
#include "core/compare/peak_comparison.h"
#include "core/compare/step_comparison.h"
#include "core/profile/import.h"
#include "views/widgets/comparison_bar.h"

#include <QObject>

#include <optional>

namespace headroom {

class Session;

/// Compares another step, a snapshot or a trace with the open step. Reads the file on a worker thread and sets the
/// session's comparison. A measured step lies over the prediction; of any other two files the peaks are compared.
/// The comparison stays until another step is opened. If the open step is replaced (other times, another size), the
/// comparison is repeated.
class MeasuredController : public QObject
{
    Q_OBJECT
public:
    explicit MeasuredController(Session& session, QObject* parent = nullptr);

    void compare(const QString& path);
    /// Compares if the file is a measured step and the open step is simulated; else emits wanted().
    void compareOrOpen(const QString& path);
    void stop();
    /// The user opens another step. A request that has no answer yet is dropped, since the later request wins.
    /// Requests made in the meantime are repeated for the new step.
    void beginOpening();
    void endOpening(); ///< no step was opened
    /// Sets the step of a profiler's trace to read, from now on.
    void useProfile(const ProfileRequest& request) { profile_ = request; }
    bool busy() const noexcept { return asked_ != answered_; }
    QString whyNot() const; ///< empty: the open step can be compared

Q_SIGNALS:
    void comparedInstead(); ///< the file was compared, though the user may have wanted to open the file
    void failed(const QString& reason); ///< a single sentence
    void wanted(const QString& path); ///< request to open the file, since no comparison is possible

private:
    struct Request
    {
        QString path; ///< file of the measured step; empty: none
        StepTracePtr measured; ///< null: not read yet
        std::optional<FileStamp> stamp; ///< of the file at the time of reading
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
    Request shown_; ///< the request of the shown comparison
    bool opening_ = false; ///< another step is being opened
    ProfileRequest profile_;
    quint64 asked_ = 0;
    quint64 answered_ = 0;
    TaskRunner lane_; ///< the last member: the thread ends before the other members are destroyed
};

/// The comparison as text.
ComparisonFacts comparisonFacts(const StepComparison& comparison, const QString& file);
ComparisonFacts comparisonFacts(const PeakTables& peaks); ///< of a file that does not lie over the prediction

} // namespace headroom
