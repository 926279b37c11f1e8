// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/cost/step_times.h"

#include <QWidget>

class QLabel;
class QToolButton;

namespace headroom {

class Actions;
class ElidedLabel;
class SizeFields;

/// The line above the cards: which step is open, how it was recorded, and the actions that are used most.
class StepHeader : public QWidget
{
    Q_OBJECT
public:
    explicit StepHeader(Actions& actions, QWidget* parent = nullptr);

    void setStep(const StepTrace& trace, const QString& path, const StepTimes& times);
    SizeFields* sizes() const noexcept { return sizes_; }

private:
    QLabel* name_;
    SizeFields* sizes_;
    ElidedLabel* facts_;
    QToolButton* times_; ///< says whose times are shown, and changes them
};

} // namespace headroom
