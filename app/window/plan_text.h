// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/window/session.h"
#include "views/widgets/inspector.h"

#include <QString>

#include <optional>

namespace headroom {

/// The words of the window about a session, made from its values alone.

/// "transformer", and what else names the open step: "batch 8 of 1024 tokens, float32, adam, …".
QString stepName(const StepTrace& trace);
QString stepFacts(const StepTrace& trace);

QString gpuTitle(const std::string& name);

/// The step was made by a command that can make it again at other sizes.
bool canRecordAgain(const StepTrace& trace);
/// The script that `torch-headroom record` made the step of: a sheet asks how to run it again. Empty: another source.
QString recordedScript(const StepTrace& trace);

/// The command line of the training program that a step was recorded from in Python; empty: `torch-headroom record` ran
/// a model. And what is known of its origin, and why its sizes are fixed, one sentence each; empty for a model.
QString trainingProgram(const StepTrace& trace);
QString originText(const StepTrace& trace);
QString whyFixedSizes(const StepTrace& trace);

/// "peak 18.4 GiB, was 32.1 GiB" after the step was replaced by one of another size; empty: it was not.
QString sizeResult(const Session& session);

/// Title of exported pictures: name, batch, GPU.
QString pictureTitle(const StepTrace& trace);

/// What the shown plan does to modules, by their names.
PlannedPoint plannedPoints(const Session& session);

/// What the inspector says of the selected module, which must be valid.
ModuleFacts moduleFacts(const Session& session);

/// The plan in one line, while no module is selected: "Recomputes 12 modules, which adds 1.2 ms (3.1 %)."
QString planSummary(const Session& session);

/// Set when there is an answer and nothing fits.
std::optional<InfeasibleFacts> infeasibleFacts(const Session& session);

/// "Optimal in 1.1 ms".
QString solverLine(const Session& session);
QString frontierLine(const Session& session); ///< whether it is complete and proven; empty: it is not known yet

/// The first module in the order of the model that can be checkpointed; what is selected when a step opens.
ModuleId firstCandidate(const ModuleInfo& info, const StepTrace& trace);

} // namespace headroom
