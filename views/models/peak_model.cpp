// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/models/peak_model.h"

#include "core/base/printable_text.h"
#include "views/plot/number_text.h"
#include "views/theme/theme.h"

#include <cstdlib>
#include <utility>

namespace headroom {
namespace {

QString printable(std::string_view text)
{
    return QString::fromStdString(printableText(text));
}

QString phaseText(Phase phase)
{
    return QString::fromUtf8(phaseName(phase)).replace(QLatin1Char('_'), QLatin1Char(' '));
}

QString changeText(const OpChange& change)
{
    switch (change.change) {
    case OpChange::Change::isNew:
        return PeakModel::tr("new");
    case OpChange::Change::gone:
        return PeakModel::tr("gone");
    case OpChange::Change::larger:
        return PeakModel::tr("larger");
    default:
        return PeakModel::tr("smaller");
    }
}

QString signedText(Bytes bytes)
{
    const QString sign = bytes > 0 ? QStringLiteral("+") : bytes < 0 ? QStringLiteral("−") : QString();
    return sign + bytesText(std::abs(bytes), 2);
}

Category categoryNamed(std::string_view name)
{
    std::size_t category = 0;
    while (category + 1 < categoryCount && categoryName(static_cast<Category>(category)) != name)
        ++category;
    return static_cast<Category>(category);
}

} // namespace

void PeakModel::setTables(PeakTablesPtr tables, Shown shown)
{
    beginResetModel();
    tables_ = std::move(tables);
    shown_ = shown;
    rows_.clear();
    if (tables_ && shown == Shown::ops)
        for (const OpChange& change : tables_->ops.changes)
            addRow(change);
    else if (tables_)
        for (const PeakRow& row : tables_->by[static_cast<std::size_t>(shown)].rows)
            addRow(row);
    endResetModel();
}

void PeakModel::addRow(const PeakRow& row)
{
    const QString blocks = row.blocksA == row.blocksB
        ? countText(row.blocksA)
        : tr("%1 → %2").arg(countText(row.blocksA), countText(row.blocksB));
    const QString name = row.ofCategory ? categoryTitle(categoryNamed(row.name))
        : row.name.empty()              ? tr("(root module)")
                                        : printable(row.name);
    rows_.push_back({name, blocks, row.a, row.b});
}

void PeakModel::addRow(const OpChange& change)
{
    const QString name = tr("%1 × %2").arg(countText(change.count), printable(change.kind.name));
    QString detail = tr("%1, %2").arg(changeText(change), phaseText(change.kind.phase));
    if (!change.kind.module.empty())
        detail = tr("%1, %2").arg(detail, printable(change.kind.module));
    rows_.push_back({name, detail, change.a, change.b});
}

int PeakModel::rowCount(const QModelIndex& parent) const
{
    return parent.isValid() ? 0 : static_cast<int>(rows_.size());
}

int PeakModel::columnCount(const QModelIndex& parent) const
{
    return parent.isValid() ? 0 : Column::columns;
}

QString PeakModel::text(const Row& row, int column) const
{
    switch (column) {
    case nameColumn:
        return row.name;
    case detailColumn:
        return row.detail;
    case aColumn:
        return bytesText(row.a, 2);
    case bColumn:
        return bytesText(row.b, 2);
    default:
        return signedText(row.b - row.a);
    }
}

QVariant PeakModel::data(const QModelIndex& index, int role) const
{
    if (!index.isValid())
        return {};
    const Row& row = rows_[static_cast<std::size_t>(index.row())];
    const int column = index.column();
    if (role == Qt::TextAlignmentRole)
        return cellAlignment(column >= aColumn);
    if (role == Qt::DisplayRole)
        return text(row, column);
    if (role == ModuleNameRole)
        return shown_ == Shown::modules && column == nameColumn;
    if (role == Qt::ToolTipRole)
        return column < aColumn
            ? text(row, column)
            : tr("%1: %2, %3: %4 bytes")
                  .arg(printable(tables_->nameA), countText(row.a), printable(tables_->nameB), countText(row.b));
    if (role == SortRole)
        switch (column) {
        case aColumn:
            return QVariant::fromValue<qlonglong>(row.a);
        case bColumn:
            return QVariant::fromValue<qlonglong>(row.b);
        case differenceColumn: // rises and falls are equally large
            return QVariant::fromValue<qlonglong>(std::abs(row.b - row.a));
        default:
            return text(row, column);
        }
    return {};
}

QVariant PeakModel::headerData(int section, Qt::Orientation orientation, int role) const
{
    if (orientation != Qt::Horizontal || section >= Column::columns)
        return {};
    if (role == Qt::TextAlignmentRole)
        return cellAlignment(section >= aColumn);
    if (role != Qt::DisplayRole)
        return {};
    const bool ofOps = shown_ == Shown::ops;
    const PeakKey key = tables_ && !ofOps ? tables_->by[static_cast<std::size_t>(shown_)].key : PeakKey::category;
    const QString name = ofOps   ? tr("Op")
        : key == PeakKey::module ? tr("Module")
        : key == PeakKey::line   ? tr("Line")
                                 : tr("Category");
    return QStringList{name, ofOps ? tr("Change") : tr("Blocks"), tr("Here"), tr("There"), tr("Difference")}.value(
        section);
}

} // namespace headroom
