// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "views/plot/axis_map.h"
#include "views/plot/budget_steps.h"
#include "views/plot/bytes_control.h"
#include "views/plot/kept_picture.h"
#include "views/theme/theme.h"

namespace headroom {

/// The slider of the budget over its cost curve: hatched where no plan fits, plans for cards and the recorded peak as
/// stops, ticks below. A click on the label of a stop sets the stop's budget.
class BudgetScale : public BytesControl
{
    Q_OBJECT
public:
    explicit BudgetScale(QWidget* parent = nullptr);

    void setRange(Bytes least, Bytes recordedPeak, Bytes axisMin, Bytes axisMax);
    void setFrontier(std::vector<FrontierPoint> frontier);
    void setStepMs(double ms) { stepMs_ = ms; } ///< step time without recomputation, for the percentage in the tool tip
    void setCards(std::vector<CardStop> cards, std::vector<Bytes> failing); ///< as BudgetBar::setCards()
    void setCurveHeight(int height); ///< in pixels; larger in a large window
    static constexpr int leastCurveHeight = 26;
    Bytes least() const noexcept { return least_; }
    const AxisRange axis() const noexcept { return axis_; }
    double knobX() const; ///< x of the value, in own pixels

    QSize sizeHint() const override;
    QSize minimumSizeHint() const override;

protected:
    bool event(QEvent* event) override;
    void paintEvent(QPaintEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void mouseMoveEvent(QMouseEvent* event) override;
    void mouseReleaseEvent(QMouseEvent* event) override;
    void valueMoved() override { update(); }

private:
    struct StopLabel
    {
        Bytes bytes = 0;
        double x = 0;
        QString text;
        QRectF box; ///< empty: no room for the text
        bool card = true;
    };
    AxisMap map() const;
    double trackY() const;
    void updateStops();
    std::vector<StopLabel> stopLabels(const QFontMetricsF& metrics) const;
    std::optional<StopLabel> labelAt(QPointF position) const;
    void placeLabels(std::vector<StopLabel>& labels, const QFontMetricsF& metrics) const;
    void paintScenery(QPainter& painter, const Theme& theme) const;
    void paintHatch(QPainter& painter, const Theme& theme) const;
    void paintCurve(QPainter& painter, const Theme& theme) const;
    void paintStops(QPainter& painter, const Theme& theme) const;
    void paintTicks(QPainter& painter, const Theme& theme) const;
    void paintTrack(QPainter& painter, const Theme& theme) const;

    bool fails(const FrontierPoint& point) const; ///< its plan does not run on the card

    std::vector<CardStop> cards_;
    std::vector<Bytes> failing_; ///< ascending
    Bytes least_ = 0;
    Bytes recordedPeak_ = 0;
    AxisRange axis_;
    std::vector<FrontierPoint> frontier_;
    double stepMs_ = 0;
    double grabbedAt_ = 0;
    int curveHeight_ = leastCurveHeight;
    KeptPicture scenery_; ///< everything but the track and its knob
};

} // namespace headroom
