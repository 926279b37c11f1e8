// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QString>

#include <optional>

namespace headroom {

/// Estimates the remaining time of work from the reported share that is done. It gives no estimate until there are
/// enough reports, nor after the estimated time has passed.
class TimeLeft
{
public:
    void report(double seconds, double share); ///< `seconds` from the start; a share below an earlier one restarts it
    std::optional<double> secondsLeft(double seconds) const;

private:
    double firstSeconds_ = 0;
    double firstShare_ = 0;
    double lastSeconds_ = 0;
    double lastShare_ = 0;
    int reports_ = 0;
};

/// "about 20 s left", rounded to the precision of an estimate.
QString timeLeftText(double seconds);

/// "12 s", "3 min 20 s".
QString elapsedText(double seconds);

} // namespace headroom
