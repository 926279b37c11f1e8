// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/snapshot_dialog.h"

#include "views/models/table_delegate.h"
#include "views/plot/number_text.h"
#include "views/theme/styles.h"

#include <QDoubleSpinBox>
#include <QFileInfo>
#include <QFormLayout>
#include <QFrame>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QPushButton>
#include <QSignalBlocker>
#include <QTreeWidget>
#include <QVBoxLayout>

#include <algorithm>

namespace headroom {

namespace {

/// Memory that an event takes in an open step, with everything derived from the event.
constexpr std::size_t bytesOfEvent = 200;

} // namespace

SnapshotDialog::SnapshotDialog(const ReadSnapshot& snapshot, QWidget* parent)
    : QDialog(parent)
    , snapshot_(snapshot.snapshot)
    , devices_(snapshot.devices)
    , list_(new QTreeWidget)
    , from_(new QDoubleSpinBox)
    , to_(new QDoubleSpinBox)
    , count_(new QLabel)
{
    setObjectName(QStringLiteral("snapshotSheet"));
    setWindowTitle(tr("Open a part of %1").arg(QFileInfo(snapshot.path).fileName()));
    auto* column = makeLayout<QVBoxLayout>(this, {20, 16, 20, 16}, 12);
    auto* title = makeLabel(tr("Which part of %1?").arg(QFileInfo(snapshot.path).fileName()), "selection");
    column->addWidget(title);
    column->addWidget(makeDevices(), 1);
    column->addWidget(makeRange());
    count_->setObjectName(QStringLiteral("eventCount"));
    count_->setProperty("second", true);
    count_->setWordWrap(true);
    column->addWidget(count_);
    auto* buttons = new QHBoxLayout;
    auto* cancel = new QPushButton(tr("Cancel"));
    cancel->setAutoDefault(false);
    open_ = new QPushButton(tr("Open"));
    open_->setProperty("primary", true);
    open_->setDefault(true);
    connect(cancel, &QPushButton::clicked, this, &QDialog::reject);
    connect(open_, &QPushButton::clicked, this, &QDialog::accept);
    buttons->addStretch(1);
    buttons->addWidget(cancel);
    buttons->addWidget(open_);
    column->addLayout(buttons);
    connect(list_, &QTreeWidget::currentItemChanged, this, &SnapshotDialog::showDevice);
    connect(list_, &QTreeWidget::itemActivated, this, &QDialog::accept);
    for (QDoubleSpinBox* field : {from_, to_})
        connect(field, &QDoubleSpinBox::valueChanged, this, &SnapshotDialog::showCount);
    const auto busiest = std::ranges::max_element(devices_, {}, &SnapshotDevice::events);
    list_->setCurrentItem(list_->topLevelItem(static_cast<int>(busiest - devices_.begin())));
    resize(560, 380);
}

QWidget* SnapshotDialog::makeDevices()
{
    list_->setObjectName(QStringLiteral("snapshotDevices"));
    list_->setAccessibleName(tr("Devices of the snapshot"));
    list_->setRootIsDecorated(false);
    list_->setUniformRowHeights(true);
    list_->setFrameShape(QFrame::NoFrame);
    list_->setItemDelegate(new TableDelegate(list_));
    list_->setHeaderLabels({tr("Device"), tr("Events"), tr("Time"), tr("Most reserved")});
    for (const SnapshotDevice& device : devices_) {
        auto* row = new QTreeWidgetItem(list_);
        row->setText(0, QStringLiteral("cuda:%1").arg(device.device));
        row->setText(1, countText(device.events));
        row->setText(2, tr("%1 to %2").arg(msText(device.fromMs), msText(device.toMs)));
        row->setText(3, bytesText(device.reservedPeak, 2));
        for (int i = 1; i < 4; ++i)
            row->setTextAlignment(i, Qt::AlignRight | Qt::AlignVCenter);
    }
    for (int i = 1; i < 4; ++i)
        list_->headerItem()->setTextAlignment(i, Qt::AlignRight | Qt::AlignVCenter);
    list_->header()->setStretchLastSection(false);
    list_->header()->setMinimumSectionSize(108); // wide enough for the headings of short numbers
    list_->header()->setSectionResizeMode(QHeaderView::ResizeToContents);
    list_->header()->setSectionResizeMode(2, QHeaderView::Stretch);
    QFrame* card = makeCard();
    auto* inside = makeLayout<QVBoxLayout>(card, {6, 6, 6, 6});
    inside->addWidget(list_);
    return card;
}

QWidget* SnapshotDialog::makeRange()
{
    auto* fields = new QWidget;
    auto* form = new QFormLayout(fields);
    form->setContentsMargins(0, 0, 0, 0);
    for (QDoubleSpinBox* field : {from_, to_}) {
        field->setDecimals(3);
        field->setSuffix(tr(" ms"));
        field->setGroupSeparatorShown(true);
        field->setButtonSymbols(QAbstractSpinBox::NoButtons);
        field->setStepType(QAbstractSpinBox::AdaptiveDecimalStepType);
        field->setMinimumWidth(180);
    }
    from_->setObjectName(QStringLiteral("rangeFrom"));
    to_->setObjectName(QStringLiteral("rangeTo"));
    from_->setAccessibleName(tr("Begin of the range"));
    to_->setAccessibleName(tr("End of the range"));
    form->addRow(tr("&From"), from_);
    form->addRow(tr("&To"), to_);
    return fields;
}

const SnapshotDevice& SnapshotDialog::device() const
{
    const int row = std::max(0, list_->indexOfTopLevelItem(list_->currentItem()));
    return devices_[static_cast<std::size_t>(row)];
}

void SnapshotDialog::showDevice()
{
    const SnapshotDevice& chosen = device();
    {
        const QSignalBlocker noFrom(from_);
        const QSignalBlocker noTo(to_);
        for (QDoubleSpinBox* field : {from_, to_})
            field->setRange(chosen.fromMs, chosen.toMs);
        from_->setValue(chosen.fromMs);
        to_->setValue(chosen.toMs);
    }
    showCount();
}

void SnapshotDialog::showCount()
{
    const SnapshotDevice& chosen = device();
    const std::vector<Snapshot::Event>& events = snapshot_->traces[chosen.device];
    const double from = from_->value();
    const double to = to_->value();
    const auto inside = static_cast<std::size_t>(std::ranges::count_if(events, [&](const Snapshot::Event& event) {
        const double ms = static_cast<double>(event.microseconds - snapshot_->firstMicroseconds) / 1000;
        return ms >= from && ms <= to;
    }));
    const bool right = from < to && inside > 0;
    open_->setEnabled(right);
    count_->setText(right ? tr("%1 of %2 events, about %3 when open.")
                                .arg(countText(inside), countText(events.size()),
                                     bytesText(static_cast<Bytes>(inside * bytesOfEvent)))
                          : tr("There is no event in this range: choose an end after the begin."));
}

ImportRequest SnapshotDialog::part() const
{
    ImportRequest request;
    const SnapshotDevice& chosen = device();
    request.device = chosen.device;
    // A field at the end of its range means no limit, since the field shows a rounded value.
    if (from_->value() > from_->minimum())
        request.range.fromMs = from_->value();
    if (to_->value() < to_->maximum())
        request.range.toMs = to_->value();
    return request;
}

} // namespace headroom
