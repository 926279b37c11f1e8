// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/window/session.h"
#include "views/plot/timeline_layers.h"
#include "views/widgets/budget_bar.h"
#include "views/widgets/ops_panel.h"

#include <QString>

#include <optional>
#include <vector>

namespace headroom {

// Texts and figures of the window about a plan by op, made from the session's values.

/// The facts of the inspector's OpsPanel.
OpsFacts opsFacts(const Session& session);

/// The figures of the shown plan; nullopt: no plan fits.
std::optional<OpsFigures> opsFigures(const Session& session);

/// Python code that sets the fraction in torch.compile; empty: there is no plan.
QString compileLines(const Session& session);

/// The instants of the ops with a changed decision on the plan's time axis: in forward, and where the plan recomputes
/// the ops.
std::vector<TimelineChangedOp> changedMarks(const OpsDecisions& answer, const Timeline& timeline);

/// Why the plan by op cannot be expressed as lists of ops to save.
QString noOpsPolicy(const Session& session);

/// What runs again of the selected module, in a sentence in rich text; empty: no plan fits.
QString opsModuleReason(const Session& session);

/// "Plan 12 of 201, found in 1.2 s".
QString opsSolverLine(const Session& session);

} // namespace headroom
