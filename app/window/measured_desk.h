// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/lane.h"
#include "core/compare/step_comparison.h"
#include "core/profile/import.h"
#include "views/widgets/comparison_bar.h"

#include <QObject>

namespace headroom {

class Session;

/// Puts a measured step beside the open one: reads it beside the GUI thread, and the session has the comparison until
/// another step is opened. A step that takes the place of the open one (other times, another size) is compared anew.
class MeasuredDesk : public QObject
{
    Q_OBJECT
public:
    explicit MeasuredDesk(Session& session, QObject* parent = nullptr);

    void compare(const QString& path);
    /// Compares when the file is a measured step and the open one is simulated; else the file is wanted().
    void compareOrOpen(const QString& path);
    void stop();
    /// Which step of a profiler's trace, for those that are read from now on.
    void useProfile(const ProfileRequest& request) { profile_ = request; }
    bool busy() const noexcept { return asked_ != answered_; }
    QString whyNot() const; ///< empty: the open step can be compared

Q_SIGNALS:
    void comparedInstead(); ///< of opening the file, which may have been meant
    void failed(const QString& reason); ///< one sentence
    void wanted(const QString& path); ///< to be opened: it is nothing to compare with

private:
    void askAgain();
    void post(const QString& path, StepTracePtr measured, bool orOpen);

    Session& session_;
    QString path_; ///< of the measured step; empty: none
    StepTracePtr measured_;
    ProfileRequest profile_;
    quint64 asked_ = 0;
    quint64 answered_ = 0;
    Lane lane_; ///< last: its thread ends before what it reports to
};

/// The comparison in words and numbers.
ComparisonFacts comparisonFacts(const StepComparison& comparison, const QString& file);

} // namespace headroom
