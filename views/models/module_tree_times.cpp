// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// The columns of a ModuleTreeModel for measured times and for exposed communication.

#include "views/models/module_tree_model.h"
#include "views/plot/number_text.h"

#include <QLocale>

#include <utility>

namespace headroom {

void ModuleTreeModel::setExposed(const std::vector<double>& ms)
{
    std::vector<bool> changed(rows_.size(), false);
    for (std::size_t i = 0; i < rows_.size(); ++i) {
        const double exposed = ms.empty() ? 0 : ms[rows_[i].module.value];
        changed[i] = std::exchange(rows_[i].exposedMs, exposed) != exposed;
    }
    reportChanges(changed);
}

void ModuleTreeModel::setComparison(const StepComparisonPtr& comparison)
{
    if (comparison == comparison_)
        return;
    comparison_ = comparison;
    reportChanges(std::vector<bool>(rows_.size(), true));
    Q_EMIT headerDataChanged(Qt::Horizontal, measuredColumn, ratioColumn);
}

const StepComparison::ModuleTimes* ModuleTreeModel::timesOf(const Row& row) const
{
    if (!comparison_ || !comparison_->hasTimes || !comparison_->modules[row.module.value].measured)
        return nullptr;
    return &comparison_->modules[row.module.value];
}

QString ModuleTreeModel::measuredText(const Row& row, int column) const
{
    const StepComparison::ModuleTimes* times = timesOf(row);
    if (!times || (column == ratioColumn && times->predictedMs <= 0))
        return QStringLiteral("–");
    return column == measuredColumn ? QLocale::c().toString(times->measuredMs, 'f', 2)
                                    : ratioText(measuredNumber(row, column));
}

double ModuleTreeModel::measuredNumber(const Row& row, int column) const
{
    const StepComparison::ModuleTimes* times = timesOf(row);
    if (!times)
        return -1;
    if (column == measuredColumn)
        return times->measuredMs;
    return times->predictedMs > 0 ? times->measuredMs / times->predictedMs : -1;
}

} // namespace headroom
