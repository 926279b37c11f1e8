// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/window/open_step.h"

#include <QDialog>

class QDoubleSpinBox;
class QLabel;
class QPushButton;
class QTreeWidget;

namespace headroom {

/// The dialog that asks for the device and the range of time of a memory snapshot to open.
class SnapshotDialog : public QDialog
{
    Q_OBJECT
public:
    explicit SnapshotDialog(const ReadSnapshot& snapshot, QWidget* parent = nullptr);

    ImportRequest part() const;

private:
    QWidget* makeDevices();
    QWidget* makeRange();
    void showDevice(); ///< shows the device's range of time
    void showCount(); ///< shows the number of events in the range
    const SnapshotDevice& device() const;

    SnapshotPtr snapshot_;
    std::vector<SnapshotDevice> devices_;
    QTreeWidget* list_;
    QDoubleSpinBox* from_;
    QDoubleSpinBox* to_;
    QLabel* count_;
    QPushButton* open_;
};

} // namespace headroom
