// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/plot/accessible_chart.h"

#include <QAccessible>
#include <QAccessibleWidget>
#include <QChartView>

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
    auto* chart = qobject_cast<QChartView*>(object);
    return chart ? new AccessibleChart(chart) : nullptr;
}

} // namespace

void makeChartsAccessible()
{
    static const bool installed = (QAccessible::installFactory(makeAccessible), true);
    Q_UNUSED(installed);
}

} // namespace headroom
