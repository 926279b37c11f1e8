// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/window/session.h"
#include "views/widgets/inspector.h"

#include <QString>

#include <optional>

namespace headroom {

// Texts of the window about a session, made from its values.

/// The step's name, "transformer", and its facts, "batch 8 × 1024, float32, adam, simulated, 1,204 events".
QString stepName(const StepTrace& trace);
QString stepFacts(const StepTrace& trace);

QString gpuTitle(const std::string& name);

/// Whether the step has a command that can record it again at other sizes.
bool canRecordAgain(const StepTrace& trace);
/// The command line with which the step was recorded; empty: not known.
QStringList recordArguments(const StepTrace& trace);
/// The script that `torch-headroom record` recorded; empty: another source. A dialog asks how to run it again.
QString recordedScript(const StepTrace& trace);

QString recordedFolder(const StepTrace& trace); ///< in which the script ran; empty: not known
QString recordedPython(const StepTrace& trace); ///< path of the Python that ran the script; empty: not known

/// For a step recorded from a training program in Python: its command line, a sentence about its origin, and one on why
/// its sizes are fixed. Empty for a model that `torch-headroom record` ran.
QString trainingProgram(const StepTrace& trace);
QString originText(const StepTrace& trace);
QString whyFixedSizes(const StepTrace& trace);

/// "peak 18.4 GiB, was 32.1 GiB" if the step replaced one of another size; else empty.
QString sizeResult(const Session& session);

/// Title of exported pictures: name, batch, GPU.
QString pictureTitle(const StepTrace& trace);

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
/// Why there is no policy to export, in a sentence; empty: there is one, or the plan is being solved.
QString whyNoExport(const Session& session);

/// "Proven optimal in 1.10 ms".
QString solverLine(const Session& session);
QString frontierLine(const Session& session); ///< whether the frontier is complete and proven; empty: not known yet

/// The first module in the order of the model that can be checkpointed; it is selected when a step opens.
ModuleId firstCandidate(const ModuleInfo& info, const StepTrace& trace);

} // namespace headroom
