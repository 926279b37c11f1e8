// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/recording/time_left.h"

#include <QCoreApplication>

#include <cmath>

namespace headroom {
namespace {

// With less than this the pace would be that of the start, or of one stage.
constexpr double leastSeconds = 2;
constexpr double leastShare = 0.1;
constexpr int leastReports = 3;

constexpr double minute = 60;

QString tr(const char* text)
{
    return QCoreApplication::translate("TimeLeft", text);
}

} // namespace

void TimeLeft::report(double seconds, double share)
{
    if (reports_ == 0 || share < lastShare_) {
        reports_ = 0;
        firstSeconds_ = seconds;
        firstShare_ = share;
    }
    lastSeconds_ = seconds;
    lastShare_ = share;
    ++reports_;
}

std::optional<double> TimeLeft::secondsLeft(double seconds) const
{
    const double took = lastSeconds_ - firstSeconds_;
    const double done = lastShare_ - firstShare_;
    if (reports_ < leastReports || took < leastSeconds || done < leastShare)
        return std::nullopt;
    const double left = took / done * (1 - lastShare_) - (seconds - lastSeconds_);
    return left > 0 ? std::optional(left) : std::nullopt;
}

QString timeLeftText(double seconds)
{
    if (seconds < 10)
        return tr("a few seconds left");
    if (seconds < 55)
        return tr("about %1 s left").arg(static_cast<int>(std::ceil(seconds / 10)) * 10);
    const int minutes = static_cast<int>(std::lround(seconds / minute));
    return minutes <= 1 ? tr("about a minute left") : tr("about %1 min left").arg(minutes);
}

QString elapsedText(double seconds)
{
    const int whole = static_cast<int>(seconds);
    return whole < 60 ? tr("%1 s").arg(whole) : tr("%1 min %2 s").arg(whole / 60).arg(whole % 60);
}

} // namespace headroom
