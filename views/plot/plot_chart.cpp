// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/plot/plot_chart.h"

#include <QAccessible>
#include <QAccessibleWidget>
#include <QChart>
#include <QEvent>
#include <QGraphicsLayout>

namespace headroom {
namespace {

class AccessibleChart : public QAccessibleWidget
{
public:
    explicit AccessibleChart(QWidget* chart)
        : QAccessibleWidget(chart, QAccessible::Chart)
    {
    }
    QString text(QAccessible::Text kind) const override
    {
        return kind == QAccessible::Value ? widget()->accessibleDescription() : QAccessibleWidget::text(kind);
    }
};

QAccessibleInterface* makeAccessible(const QString&, QObject* object)
{
    auto* chart = qobject_cast<PlotChart*>(object);
    return chart ? new AccessibleChart(chart) : nullptr;
}

} // namespace

PlotChart::PlotChart(const QString& accessibleName, QWidget* parent)
    : QChartView(parent)
    , xAxis_(new QValueAxis(this))
    , yAxis_(new QValueAxis(this))
{
    static const bool installed = (QAccessible::installFactory(makeAccessible), true);
    Q_UNUSED(installed);
    setAccessibleName(accessibleName);
    chart()->legend()->hide();
    chart()->setBackgroundVisible(false);
    chart()->setMargins({});
    chart()->layout()->setContentsMargins(0, 0, 0, 0);
    chart()->addAxis(xAxis_, Qt::AlignBottom);
    chart()->addAxis(yAxis_, Qt::AlignLeft);
    for (auto* axis : {xAxis_, yAxis_}) {
        axis->setTickType(QValueAxis::TicksDynamic);
        axis->setTickAnchor(0);
        axis->setLineVisible(false);
        axis->setTruncateLabels(false);
    }
    setFrameShape(QFrame::NoFrame);
    setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    setVerticalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    setFocusPolicy(Qt::StrongFocus);
    setMouseTracking(true);
    viewport()->setMouseTracking(true);
    viewport()->setAttribute(Qt::WA_OpaquePaintEvent); // subclasses paint the background
}

// Each setter of an axis causes a new layout, so only changes are set, here and in setAxis().
void PlotChart::setAxisStyle(const Theme& theme)
{
    for (auto* axis : {xAxis_, yAxis_}) {
        if (axis->labelsFont() != theme.numberCaption)
            axis->setLabelsFont(theme.numberCaption);
        if (axis->labelsColor() != theme.secondText)
            axis->setLabelsColor(theme.secondText);
        if (axis->gridLineColor() != theme.line)
            axis->setGridLineColor(theme.line);
        if (axis->titleFont() != theme.caption)
            axis->setTitleFont(theme.caption);
        if (axis->titleBrush() != QBrush(theme.secondText))
            axis->setTitleBrush(theme.secondText);
    }
}

void PlotChart::setAxis(QValueAxis& axis, AxisRange range, const Ticks& ticks, const QString& unit)
{
    const QString format = QStringLiteral("%.") + QString::number(ticks.decimals) + QLatin1Char('f') + unit;
    if (axis.labelFormat() != format)
        axis.setLabelFormat(format);
    if (axis.tickInterval() != ticks.step)
        axis.setTickInterval(ticks.step);
    if (axis.min() != range.begin || axis.max() != range.end)
        axis.setRange(range.begin, range.end);
}

void PlotChart::setPlotArea(const QRectF& plot)
{
    chart()->setPlotArea(plot);
    chart()->layout()->invalidate(); // otherwise the axes stay
}

void PlotChart::changeEvent(QEvent* event)
{
    QChartView::changeEvent(event);
    if (event->type() == QEvent::PaletteChange || event->type() == QEvent::StyleChange)
        Q_EMIT themeChanged();
}

} // namespace headroom
