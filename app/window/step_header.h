// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/window/open_step.h"

#include <QWidget>

class QLabel;
class QToolButton;

namespace headroom {

class Actions;
class ElidedLabel;
class RemarksButton;
class SizeFields;

/// The line above the cards: which step is open, how it was recorded, and the actions that are used most.
class StepHeader : public QWidget
{
    Q_OBJECT
public:
    explicit StepHeader(Actions& actions, QWidget* parent = nullptr);

    void setStep(const OpenStepPtr& step);
    SizeFields* sizes() const noexcept { return sizes_; }

Q_SIGNALS:
    void timesWanted(const headroom::TimeChoice& times);

private:
    void fillTimes();

    std::weak_ptr<const OpenStep> step_;
    QLabel* name_;
    SizeFields* sizes_;
    ElidedLabel* facts_;
    RemarksButton* remarks_;
    QToolButton* times_; ///< says whose times are shown and of which card, and offers others
};

} // namespace headroom
