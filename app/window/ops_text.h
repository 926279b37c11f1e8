// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/window/session.h"
#include "views/plot/flip_layer.h"
#include "views/widgets/budget_bar.h"
#include "views/widgets/inspector.h"
#include "views/widgets/ops_panel.h"

#include <QString>

#include <optional>

namespace headroom {

/// The words of the window about a plan of single ops, made from the session's values alone.

/// What the inspector says of the selected module, which must be valid.
ModuleFacts opsModuleFacts(const Session& session);

/// The part of the inspector that is about ops.
OpsFacts opsFacts(const Session& session);

/// Nothing without a plan that fits.
std::optional<OpsFigures> opsFigures(const Session& session);

/// "62 plans in 304 ms, the cheapest by the times of the step's ops".
QString opsSolverLine(const Session& session);

/// Python that sets the fraction; empty: there is no plan.
QString compileLines(const Session& session);

/// Where the ops that flip are on the axis of the plan's timeline: in forward, and where they run again.
std::vector<TimelineFlip> flipMarks(const OpsAnswer& answer, const Timeline& timeline);

/// Why the plan of ops is not to be had as save lists.
QString noOpsPolicy(const Session& session);

} // namespace headroom
