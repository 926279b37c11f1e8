// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QString>

#include <optional>

namespace headroom {

/// How long something that reports its share of done work will take, from the pace so far. Says nothing until the pace
/// means something, and nothing once it has taken longer than said.
class TimeLeft
{
public:
    void report(double seconds, double share); ///< since the start; a share below an earlier one begins anew
    std::optional<double> secondsLeft(double seconds) const;

private:
    double firstSeconds_ = 0;
    double firstShare_ = 0;
    double lastSeconds_ = 0;
    double lastShare_ = 0;
    int reports_ = 0;
};

/// "about 20 s left", rounded to what an estimate can say.
QString timeLeftText(double seconds);

/// "12 s", "3 min 20 s".
QString elapsedText(double seconds);

} // namespace headroom
