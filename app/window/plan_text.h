// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/window/session.h"
#include "views/widgets/inspector.h"

#include <QString>

#include <optional>

namespace headroom {

// Texts and figures of the window about a plan, made from the session's values; more of plans by op: ops_text.h.

QString bold(const QString& text); ///< as rich text

/// The shown plan's point of each module, by fqn.
PlannedPoint plannedPoints(const Session& session);

/// The inspector's facts about the selected module, which must be valid.
ModuleFacts moduleFacts(const Session& session);

/// The plan in one line, shown if no module is selected: "12 modules are recomputed, which adds 1.20 ms (3.1 %)."
QString planSummary(const Session& session);

/// Why no plan fits; nullopt: there is no answer, or a plan fits.
std::optional<InfeasibleFacts> infeasibleFacts(const Session& session);

/// Why no plan of the open step is possible, whatever the budget, in a sentence; empty: plans are possible.
QString whyNoPlan(const Session& session);
/// Why no plan with offload of the open step is possible, in a sentence; empty: plans may offload.
QString whyNoOffload(const Session& session);
/// Whether the plan may offload: by the choice for all modules, or by a pin.
bool mayOffload(const Session& session);
/// What the shown plan moves to the host, and how long the GPU waits for the copies; empty: nothing.
QString copiesLine(const Session& session);
/// Why there is no policy to export, in a sentence; empty: there is one, or the plan is being solved.
QString whyNoExport(const Session& session);

/// "Proven optimal in 1.10 ms".
QString solverLine(const Session& session);
QString frontierLine(const Session& session); ///< whether the frontier is complete and proven; empty: not known yet

} // namespace headroom
