// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/window/session.h"

#include <QString>

#include <vector>

namespace headroom {

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

} // namespace headroom
