// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/allocator/allocator_rules.h"
#include "core/base/lane.h"
#include "core/timeline/timeline.h"
#include "core/trace/workspaces.h"
#include "views/widgets/reserved_plot.h"

#include <QObject>
#include <QString>

namespace headroom {

class AllocatorPanel;
class Session;

/// Answers the allocator's panel for the open step, under the plan that is shown: simulates on a thread of its own, the
/// latest question wins.
class AllocatorPage : public QObject
{
    Q_OBJECT
public:
    explicit AllocatorPage(Session& session, QObject* parent = nullptr);

    AllocatorPanel* panel() const noexcept { return panel_; }
    void setShown(bool shown); ///< nothing is simulated while the panel is not seen

Q_SIGNALS:
    void answered(); ///< the panel shows what was asked

private:
    void showStep();
    void ask();

    Session& session_;
    AllocatorPanel* panel_;
    bool shown_ = false;
    quint64 asked_ = 0;
    Lane lane_;
};

/// What the panel shows.
struct AllocatorAnswer
{
    QString words;
    ReservedCurves curves;
};

/// `stretches`: of the time axis.
AllocatorAnswer allocatorAnswer(const StepTrace& trace, const Timeline& timeline, const AllocatorRules& rules,
                                const Workspaces& workspaces, std::size_t stretches);

/// Rules by what was typed. Errors say which token is wrong.
Result<AllocatorRules> allocatorRules(const QString& settings, const QString& card, const StepTrace& trace);
/// What libraries take on a card that has a name.
Workspaces workspacesOn(const QString& card, const StepTrace& trace);

} // namespace headroom
