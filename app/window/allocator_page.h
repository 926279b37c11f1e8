// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/allocator/allocator_rules.h"
#include "core/base/task_runner.h"
#include "core/timeline/timeline.h"
#include "core/trace/workspaces.h"
#include "views/widgets/allocator_panel.h"

#include <QObject>
#include <QString>

namespace headroom {

class AllocatorPanel;
class Session;

/// Computes the AllocatorPanel's result for the open step under the shown plan, on the session's card. The settings of
/// the panel are the session's. The simulation runs on a separate thread; the latest request wins.
class AllocatorPage : public QObject
{
    Q_OBJECT
public:
    explicit AllocatorPage(Session& session, QObject* parent = nullptr);

    AllocatorPanel* panel() const noexcept { return panel_; }
    void setShown(bool shown); ///< simulates only while the panel is shown

Q_SIGNALS:
    void answered(); ///< the panel shows the result of the latest input

private:
    void showSettings();
    void ask();

    Session& session_;
    AllocatorPanel* panel_;
    bool shown_ = false;
    quint64 asked_ = 0;
    TaskRunner lane_;
};

/// The result that the panel shows.
struct AllocatorAnswer
{
    QString words;
    ReservedCurves curves;
};

/// Simulates the allocator. `stretches` is the number of intervals of the time axis in the curves.
AllocatorAnswer allocatorAnswer(const StepTrace& trace, const Timeline& timeline, const AllocatorRules& rules,
                                const Workspaces& workspaces, std::size_t stretches);

} // namespace headroom
