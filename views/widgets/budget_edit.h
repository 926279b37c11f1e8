// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/bytes.h"
#include "views/plot/axis_map.h"

#include <QWidget>

class QLabel;
class QLineEdit;

namespace headroom {

/// Edits the budget as a large number with its unit. Accepts `12.5 GiB`, `800 MiB`, or a number in the shown unit. The
/// keys Up and Down step. Invalid text stays, in red, with the reason as tool tip.
class BudgetEdit : public QWidget
{
    Q_OBJECT
public:
    explicit BudgetEdit(QWidget* parent = nullptr);

    void setValue(Bytes value); ///< ignored while the user types
    void setUnitOf(Bytes largest); ///< sets the unit to that of the bar's largest value
    void setDanger(bool danger); ///< no plan fits the budget
    QLineEdit* line() const noexcept { return line_; }
    QString problem() const { return problem_; } ///< empty: the text is valid

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
