// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "views/models/peak_model.h"

#include <QWidget>

class QButtonGroup;
class QSortFilterProxyModel;
class QTreeView;

namespace headroom {

class WrappedLabel;

/// The page that compares two peaks: the sentence of the cause, and a table by module, line or category, or of ops.
class PeakPanel : public QWidget
{
    Q_OBJECT
public:
    explicit PeakPanel(QWidget* parent = nullptr);

    void setTables(PeakTablesPtr tables); ///< null: nothing is compared
    void show(PeakModel::Shown shown);
    QTreeView* table() const noexcept { return table_; }
    QString text() const; ///< the sentences, for tests

private:
    void showTables();

    PeakModel* model_;
    QSortFilterProxyModel* sorted_;
    QButtonGroup* switch_;
    WrappedLabel* cause_;
    QTreeView* table_;
    PeakTablesPtr tables_;
    PeakModel::Shown shown_ = PeakModel::Shown::modules;
};

} // namespace headroom
