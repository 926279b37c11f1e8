// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/models/fit_model.h"

#include "views/models/ops_model.h"
#include "views/plot/number_text.h"

#include <algorithm>
#include <cmath>

namespace headroom {
namespace {

bool isNumberOfFit(int column)
{
    return column != FitModel::cardColumn && column != FitModel::runsColumn && column != FitModel::sourceColumn;
}

/// A number of a row; negative: none.
double numberOfFit(const FitRow& row, int column)
{
    switch (column) {
    case FitModel::batchColumn:
        return static_cast<double>(row.size.batch);
    case FitModel::sequenceColumn:
        return row.size.sequence > 0 ? static_cast<double>(row.size.sequence) : -1;
    case FitModel::accumulationColumn:
        return static_cast<double>(row.size.accumulation);
    default:
        break;
    }
    if (!row.failure.empty())
        return -1;
    const FitRun& run = row.best();
    if (column == FitModel::peakColumn)
        return static_cast<double>(run.peak);
    const auto known = [&](double value) { return row.runs() && value > 0 ? value : -1; };
    switch (column) {
    case FitModel::reservedColumn:
        return known(static_cast<double>(run.card.reservedPeak));
    case FitModel::recomputeColumn:
        return row.runs() && row.plan ? run.recomputeMs : -1;
    case FitModel::stepColumn:
        return known(run.stepMs);
    case FitModel::samplesColumn:
        return known(run.samplesPerSecond);
    default:
        return known(run.tokensPerSecond);
    }
}

} // namespace

void FitModel::setResult(FitResultPtr result)
{
    beginResetModel();
    result_ = std::move(result);
    rows_.clear();
    for (std::size_t series = 0; result_ && series < result_->series.size(); ++series)
        for (std::size_t row = 0; row < result_->series[series].rows.size(); ++row)
            rows_.push_back({series, row});
    sortRows();
    endResetModel();
}

QModelIndex FitModel::indexOf(RowIndex at) const
{
    const auto found = std::ranges::find(rows_, at);
    return found == rows_.end() ? QModelIndex() : index(static_cast<int>(found - rows_.begin()), 0);
}

bool FitModel::hasValues(Column column) const
{
    const auto numberAt = [&](RowIndex at) {
        return column == cardColumn ? static_cast<double>(at.series) : numberOfFit(rowOf(at), column);
    };
    const bool mayBeTheSame = column == samplesColumn || column == tokensColumn;
    return std::ranges::any_of(
        rows_, [&](RowIndex at) { return mayBeTheSame ? numberAt(at) > 0 : numberAt(at) != numberAt(rows_.front()); });
}

int FitModel::rowCount(const QModelIndex& parent) const
{
    return parent.isValid() ? 0 : static_cast<int>(rows_.size());
}

int FitModel::columnCount(const QModelIndex& parent) const
{
    return parent.isValid() ? 0 : Column::columns;
}

QVariant FitModel::data(const QModelIndex& index, int role) const
{
    if (!index.isValid())
        return {};
    const RowIndex at = rowAt(index);
    if (role == Qt::TextAlignmentRole)
        return cellAlignment(isNumberOfFit(index.column()));
    if (role == OpsModel::ChangedRole) // the plan makes the step run
        return index.column() == runsColumn && rowOf(at).runs() && !rowOf(at).plain.runs();
    if (role == Qt::DisplayRole)
        return textOf(at, index.column());
    if (role == Qt::ToolTipRole)
        return tipOf(at);
    return {};
}

QString FitModel::textOf(RowIndex at, int column) const
{
    const FitRow& row = rowOf(at);
    if (column == cardColumn)
        return deviceTitle(seriesOf(at).gpu);
    if (column == runsColumn)
        return !row.failure.empty() ? tr("failed")
            : row.plain.runs()      ? tr("yes")
            : row.runs()            ? tr("with a plan")
                                    : tr("no");
    if (column == sourceColumn)
        return !row.failure.empty() ? tr("failed") : row.isRecorded ? tr("recorded") : tr("calculated");
    const double number = numberOfFit(row, column);
    if (number < 0)
        return QStringLiteral("–");
    switch (column) {
    case peakColumn:
    case reservedColumn:
        return bytesText(static_cast<Bytes>(number), 2);
    case recomputeColumn:
    case stepColumn:
        return msText(number);
    case samplesColumn:
        return ratioText(number);
    default:
        return countText(std::llround(number));
    }
}

QString FitModel::tipOf(RowIndex at) const
{
    const FitRow& row = rowOf(at);
    if (!row.failure.empty())
        return QString::fromStdString(row.failure);
    if (!row.runs())
        return tr("Does not run with any plan, and the peak is the least of all plans. %1")
            .arg(QString::fromStdString(row.best().card.reason));
    return row.isRecorded
        ? tr("Return opens this step with the plan")
        : tr("Calculated from recordings of other sizes: Return records this size, then opens the step");
}

QVariant FitModel::headerData(int section, Qt::Orientation orientation, int role) const
{
    if (orientation != Qt::Horizontal || section >= Column::columns)
        return {};
    if (role == Qt::TextAlignmentRole)
        return cellAlignment(isNumberOfFit(section));
    if (role != Qt::DisplayRole)
        return {};
    return QStringList{tr("Card"),      tr("Batch"),     tr("Sequence"), tr("Accumulation"),
                       tr("Runs"),      tr("Samples/s"), tr("Tokens/s"), tr("Step"),
                       tr("Recompute"), tr("Peak"),      tr("Reserved"), tr("Source")}
        .value(section);
}

std::pair<double, QString> FitModel::keyOf(RowIndex at) const
{
    if (sortColumn_ == cardColumn)
        return {static_cast<double>(at.series), {}};
    if (isNumberOfFit(sortColumn_))
        return {numberOfFit(rowOf(at), sortColumn_), {}};
    return {0, textOf(at, sortColumn_)};
}

void FitModel::sort(int column, Qt::SortOrder order)
{
    Q_EMIT layoutAboutToBeChanged({}, QAbstractItemModel::VerticalSortHint);
    const QModelIndexList before = persistentIndexList();
    std::vector<RowIndex> stood;
    for (const QModelIndex& index : before)
        stood.push_back(rowAt(index));
    sortColumn_ = column;
    sortOrder_ = order;
    sortRows();
    QModelIndexList after;
    for (int i = 0; i < before.size(); ++i)
        after << indexOf(stood[static_cast<std::size_t>(i)]).siblingAtColumn(before[i].column());
    changePersistentIndexList(before, after);
    Q_EMIT layoutChanged({}, QAbstractItemModel::VerticalSortHint);
}

void FitModel::sortRows()
{
    std::ranges::sort(rows_, {}, [](RowIndex at) { return std::pair(at.series, at.row); });
    std::ranges::stable_sort(rows_, [&](RowIndex a, RowIndex b) {
        return sortOrder_ == Qt::AscendingOrder ? keyOf(a) < keyOf(b) : keyOf(b) < keyOf(a);
    });
}

void ChangesModel::setChanges(ChangesPtr changes)
{
    beginResetModel();
    changes_ = std::move(changes);
    endResetModel();
}

int ChangesModel::rowCount(const QModelIndex& parent) const
{
    return parent.isValid() || !changes_ ? 0 : static_cast<int>(changes_->list.size());
}

int ChangesModel::columnCount(const QModelIndex& parent) const
{
    return parent.isValid() ? 0 : Column::columns;
}

namespace {

bool isNumberOfChange(int column)
{
    return column == ChangesModel::freesColumn || column == ChangesModel::stepColumn;
}

QString addedText(const Change& change)
{
    if (change.stepMs <= 0)
        return QStringLiteral("–");
    if (std::abs(change.addedMs) < 0.005)
        return QStringLiteral("0");
    return (change.addedMs > 0 ? QStringLiteral("+") : QStringLiteral("−")) + msText(std::abs(change.addedMs));
}

QString costTextOf(ChangeCost cost)
{
    switch (cost) {
    case ChangeCost::nothing:
        return ChangesModel::tr("nothing");
    case ChangeCost::time:
        return ChangesModel::tr("time");
    case ChangeCost::numerics:
        return ChangesModel::tr("numerics");
    case ChangeCost::hardware:
        break;
    }
    return ChangesModel::tr("hardware");
}

QString textOfChange(const Change& change, int column)
{
    switch (column) {
    case ChangesModel::changeColumn:
        return QString::fromStdString(change.what);
    case ChangesModel::freesColumn:
        return bytesText(change.freed, 2);
    case ChangesModel::runsColumn:
        return change.runs() ? ChangesModel::tr("yes") : ChangesModel::tr("no");
    case ChangesModel::stepColumn:
        return addedText(change);
    case ChangesModel::costColumn:
        return costTextOf(change.cost);
    default:
        return QString::fromUtf8(changeSource(change));
    }
}

} // namespace

QVariant ChangesModel::data(const QModelIndex& index, int role) const
{
    if (!index.isValid())
        return {};
    const Change& change = changes_->list[static_cast<std::size_t>(index.row())];
    if (role == Qt::TextAlignmentRole)
        return cellAlignment(isNumberOfChange(index.column()));
    if (role == OpsModel::ChangedRole) // the change makes the step run
        return index.column() == runsColumn && change.runs() && !changes_->before.run.runs;
    if (role == Qt::DisplayRole)
        return textOfChange(change, index.column());
    if (role == Qt::ToolTipRole) {
        QString tip
            = tr("%1\n%2 allocated at the peak").arg(QString::fromStdString(change.how), bytesText(change.peak, 2));
        if (!change.rests.empty())
            tip += tr("\nCalculated: %1").arg(QString::fromStdString(change.rests));
        return tip;
    }
    return {};
}

QVariant ChangesModel::headerData(int section, Qt::Orientation orientation, int role) const
{
    if (orientation != Qt::Horizontal || section >= Column::columns)
        return {};
    if (role == Qt::TextAlignmentRole)
        return cellAlignment(isNumberOfChange(section));
    if (role != Qt::DisplayRole)
        return {};
    return QStringList{tr("Change"), tr("Frees"), tr("Runs"), tr("Step"), tr("Costs"), tr("How sure")}.value(section);
}

} // namespace headroom
