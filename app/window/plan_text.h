// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/window/session.h"
#include "views/widgets/inspector.h"
#include "views/widgets/ops_panel.h"

#include <QString>

#include <optional>
#include <vector>

namespace headroom {

// Texts and figures of the window about a plan, by modules or by op, made from the session's values.

QString bold(const QString& text); ///< as rich text

/// The shown plan's point of each module, by fqn.
PlannedPoint plannedPoints(const Session& session);

/// The inspector's facts about the selected module, which must be valid.
ModuleFacts moduleFacts(const Session& session);

/// Why no plan fits; nullopt: there is no answer, or a plan fits.
std::optional<InfeasibleFacts> infeasibleFacts(const Session& session);

/// Why no plan of the open step is possible, whatever the budget, in a sentence; empty: plans are possible.
QString whyNoPlan(const Session& session);
/// Why no plan with offload of the open step is possible, in a sentence; empty: plans may offload.
QString whyNoOffload(const Session& session);
/// Whether the plan may offload: by the choice for all modules, or by a pin.
bool mayOffload(const Session& session);
/// Why there is no policy to export, in a sentence; empty: there is one, or the plan is being solved.
QString whyNoExport(const Session& session);

/// The facts of the inspector's OpsPanel.
OpsFacts opsFacts(const Session& session);
/// Python code that sets the fraction of a plan by op in torch.compile; empty: there is no plan.
QString compileLines(const Session& session);
/// Why the plan by op cannot be expressed as lists of ops to save.
QString noOpsPolicy(const Session& session);

} // namespace headroom
