// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/widgets/peak_panel.h"

#include "core/base/printable_text.h"
#include "views/models/table_delegate.h"
#include "views/theme/styles.h"
#include "views/widgets/labels.h"

#include <QButtonGroup>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QSortFilterProxyModel>
#include <QToolButton>
#include <QTreeView>
#include <QVBoxLayout>

#include <utility>

namespace headroom {

PeakPanel::PeakPanel(QWidget* parent)
    : QWidget(parent)
    , model_(new PeakModel(this))
    , sorted_(new QSortFilterProxyModel(this))
    , switch_(new QButtonGroup(this))
    , cause_(new WrappedLabel(this))
{
    sorted_->setSourceModel(model_);
    sorted_->setSortRole(PeakModel::SortRole);
    table_ = makeTableView(sorted_, false);
    table_->setObjectName(QStringLiteral("peakTable"));
    table_->setAccessibleName(tr("Comparison of two peaks"));
    cause_->setObjectName(QStringLiteral("peakCause"));
    cause_->setProperty("second", true);
    auto* column = makeLayout<QVBoxLayout>(this, {12, 6, 8, 8}, 4);
    column->addWidget(cause_);
    auto* row = makeLayout<QHBoxLayout>(nullptr, {0, 0, 0, 0}, 2);
    int id = 0;
    for (const QString& text : {tr("Modules"), tr("Lines"), tr("Categories"), tr("Changed ops")}) {
        auto* button = makeSegment(text, this);
        switch_->addButton(button, id++);
        row->addWidget(button);
    }
    row->addStretch(1);
    column->addLayout(row);
    column->addWidget(table_, 1);
    QHeaderView& header = *table_->header();
    header.setSectionResizeMode(PeakModel::nameColumn, QHeaderView::Stretch);
    for (const int section : {PeakModel::aColumn, PeakModel::bColumn, PeakModel::differenceColumn})
        header.resizeSection(section, 92);
    table_->sortByColumn(PeakModel::differenceColumn, Qt::DescendingOrder);
    connect(switch_, &QButtonGroup::idClicked, this,
            [this](int clicked) { show(static_cast<PeakModel::Shown>(clicked)); });
    show(PeakModel::Shown::modules);
}

void PeakPanel::setTables(PeakTablesPtr tables)
{
    tables_ = std::move(tables);
    showTables();
}

void PeakPanel::show(PeakModel::Shown shown)
{
    shown_ = shown;
    switch_->button(static_cast<int>(shown))->setChecked(true);
    showTables();
}

void PeakPanel::showTables()
{
    model_->setTables(tables_, shown_);
    for (QAbstractButton* button : switch_->buttons())
        button->setVisible(tables_ != nullptr);
    table_->setVisible(tables_ != nullptr);
    cause_->setAlignment(tables_ ? Qt::AlignLeft | Qt::AlignTop : Qt::AlignCenter);
    if (!tables_) {
        cause_->setText(tr("Compare the open step with another step, a memory snapshot or a trace of torch.profiler: "
                           "File → Compare with."));
        return;
    }
    const bool ofOps = shown_ == PeakModel::Shown::ops;
    table_->header()->resizeSection(PeakModel::detailColumn, ofOps ? 170 : 90);
    const PeakComparison& shown = tables_->by[ofOps ? 0 : static_cast<std::size_t>(shown_)];
    std::string text = shown.cause;
    for (const std::string& note : shown.notes)
        text += ' ' + note;
    if (ofOps && !tables_->ops.note.empty())
        text += ' ' + tables_->ops.note;
    cause_->setText(QString::fromStdString(printableText(text)));
}

QString PeakPanel::text() const
{
    return cause_->text();
}

} // namespace headroom
