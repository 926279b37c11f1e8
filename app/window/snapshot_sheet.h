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

/// Asks which device of a memory snapshot is opened, and which stretch of its time: a snapshot may hold hours of
/// several GPUs.
class SnapshotSheet : public QDialog
{
    Q_OBJECT
public:
    explicit SnapshotSheet(const ReadSnapshot& snapshot, QWidget* parent = nullptr);

    ImportRequest part() const;

private:
    QWidget* makeDevices();
    QWidget* makeRange();
    void showDevice(); ///< its stretch of time
    void showCount(); ///< events in the range
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
