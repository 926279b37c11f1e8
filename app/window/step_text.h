// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/window/session.h"
#include "core/timeline/range_summary.h"
#include "views/plot/timeline_layers.h"

#include <QString>
#include <QStringList>

#include <string>
#include <vector>

namespace headroom {

// Texts of the window about a step and its times, and the lines about how a plan was found and how long a step takes.

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

QString recordedFolder(const StepTrace& trace); ///< of the script's run; empty: not known
QString recordedPython(const StepTrace& trace); ///< path of the Python that ran the script; empty: not known

/// For a step recorded from a training program in Python: its command line, a sentence about its origin, and one on why
/// its sizes are fixed. Empty for a model that `torch-headroom record` ran.
QString trainingProgram(const StepTrace& trace);
QString originText(const StepTrace& trace);
QString whyFixedSizes(const StepTrace& trace);

/// "peak 18.4 GiB, was 32.1 GiB" if the step replaced one of another size; else empty.
QString sizeResult(const Session& session);

/// What happens in a range: "12.30 ms – 20.10 ms (7.80 ms): 3.20 GiB made, …".
QString rangeSums(const RangeSummary& summary);
/// The modules and the lines that make most in a range: "Most by layers.3.feed_forward 1.20 GiB, …". Empty: nothing is
/// made.
QString rangeMost(const StepTrace& trace, const RangeSummary& summary);

/// Title of exported pictures: name, batch, GPU.
QString pictureTitle(const StepTrace& trace);

/// A menu entry for op times of the open step.
struct TimesEntry
{
    QString text; ///< "Kernel model"
    QString note; ///< why the entry is not available; may be empty
    TimeChoice choice;
    bool isChosen = false;
    bool isThere = true;
};

/// The menu of op times: the time models.
std::vector<TimesEntry> timesMenu(const OpenStep& step);

/// The same choice for another GPU, with that GPU's calibration.
TimeChoice onCard(TimeChoice choice, const std::string& gpu);

/// "Kernel model · A100-SXM4-80GB": the source of the step's op times, and the GPU.
QString timesText(const StepInfo& info);
/// The same without a GPU that is the chosen card.
QString timesBesideCard(const Session& session);
QString timesTip(const OpenStep& step);

/// The text of the undo step: "times of the roofline".
QString timesChange(const TimeChoice& from, const TimeChoice& to);

/// "Kernel model: 117.4 ms a step, 112.1 ms without the plan; the GPU binds; 39 kernels are launched again". Empty: the
/// step has no clock.
QString clockLine(const Session& session);
/// "Proven optimal in 1.10 ms"; of a plan by op "Plan 12 of 201, found in 1.2 s".
QString solverLine(const Session& session);
QString frontierLine(const Session& session); ///< whether the frontier is complete and proven; empty: not known yet
/// What the shown plan moves to the host, and how long the GPU waits for the copies; empty: nothing.
QString copiesLine(const Session& session);

/// The plan in one line, shown if no module is selected: "12 modules are recomputed, which adds 1.20 ms (3.1 %)."
QString planSummary(const Session& session);

/// The instants of the ops with a changed decision on the plan's time axis: in forward, and where the plan recomputes
/// the ops. Results that go to the host have no mark.
std::vector<TimelineChangedOp> changedMarks(const OpsDecisions& decisions, const Timeline& timeline);

} // namespace headroom
