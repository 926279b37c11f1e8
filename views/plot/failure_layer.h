// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "views/plot/timeline_items.h"

#include <QString>

#include <vector>

namespace headroom {

/// An instant at which an allocation failed.
struct TimelineFailure
{
    double ms = 0;
    QString label; ///< "Out of memory: asked for 2.00 GiB, 1.20 GiB left"
    QString sentence; ///< why

    bool operator==(const TimelineFailure&) const = default;
};

/// Paints failed allocations as vertical lines with labels; lines close together share the first one's label.
class FailureLayer : public TimelineLayer
{
    Q_OBJECT
public:
    using TimelineLayer::TimelineLayer;

    void setFailures(std::vector<TimelineFailure> failures); ///< ms ascending
    const std::vector<TimelineFailure>& failures() const noexcept { return failures_; }

    void paint(QPainter* painter, const QStyleOptionGraphicsItem*, QWidget*) override;

private:
    bool paintLabel(QPainter& painter, double x, const QString& text, double right) const;

    std::vector<TimelineFailure> failures_;
};

} // namespace headroom
