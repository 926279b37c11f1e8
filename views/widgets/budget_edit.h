// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/bytes.h"
#include "views/plot/axis_map.h"

#include <QWidget>

class QLabel;
class QLineEdit;

namespace headroom {

/// The budget as a large number with its unit that can be typed over: it takes `12.5 GiB`, `800 MiB`, or a number alone
/// in the unit that is shown. Up and Down step. What cannot be read stays, in red, with the reason as its tool tip.
class BudgetEdit : public QWidget
{
    Q_OBJECT
public:
    explicit BudgetEdit(QWidget* parent = nullptr);

    void setValue(Bytes value); ///< not while the user types
    void setUnitOf(Bytes largest); ///< the unit of the whole bar
    void setDanger(bool danger); ///< nothing fits this budget
    QString problem() const { return problem_; } ///< empty: what is typed can be read

Q_SIGNALS:
    void entered(headroom::Bytes value);
    void stepped(int steps);

protected:
    bool eventFilter(QObject* watched, QEvent* event) override;
    void changeEvent(QEvent* event) override;

private:
    void show();
    void read();
    void fitWidth();
    void applyLook();

    QLineEdit* line_;
    QLabel* unit_;
    Bytes value_ = 0;
    ByteUnit shownIn_;
    bool danger_ = false;
    QString problem_;
};

} // namespace headroom
