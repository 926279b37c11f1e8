// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/lane.h"

#include <QObject>
#include <QString>

namespace headroom {

class Session;
class SolverChoice;

/// Takes the user's choice of a solver for ops, and of what running one again costs, to the session. Measured times
/// come from a file, which is asked for and read beside the GUI thread.
class OpsChoiceDesk : public QObject
{
    Q_OBJECT
public:
    OpsChoiceDesk(Session& session, SolverChoice& view, QObject* parent = nullptr);
    ~OpsChoiceDesk() override;

    /// Plans by the times of this file, of which `refused` says why it has none.
    void takeTimes(const QString& path);

Q_SIGNALS:
    void refused(const QString& reason);

private:
    void show();
    void askForTimes();

    Session& session_;
    SolverChoice& view_;
    Lane lane_; ///< last: its thread ends before what it reports to
};

} // namespace headroom
