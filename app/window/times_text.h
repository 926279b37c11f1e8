// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/window/session.h"

#include <QString>

#include <vector>

namespace headroom {

/// One of the times that the open step can have.
struct TimesEntry
{
    QString text; ///< "Kernel model", "NVIDIA L4"
    QString note; ///< "recorded", or why it cannot be had; empty: nothing is to say
    TimeChoice choice;
    bool isChosen = false;
    bool isThere = true;
};

/// What the window offers: whose times, and of which card.
struct TimesMenu
{
    std::vector<TimesEntry> models;
    std::vector<TimesEntry> cards; ///< none: the step was recorded for a card that is not known
};
TimesMenu timesMenu(const OpenStep& step);

/// The same times of another card; of the calibrations the card's own.
TimeChoice onCard(TimeChoice choice, const std::string& gpu);

/// "Kernel model · A100-SXM4-80GB": whose times the step has, and of which card.
QString timesText(const StepInfo& info);
QString timesTip(const OpenStep& step);

/// What is taken back when these times are undone: "times of the roofline".
QString timesChange(const TimeChoice& from, const TimeChoice& to);

/// "Kernel model: 117.4 ms a step, 112.1 ms without the plan; the GPU binds; 39 kernels are launched again". Empty:
/// nothing is known of it.
QString clockLine(const Session& session);

} // namespace headroom
