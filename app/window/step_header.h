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

/// The line above the cards: the open step, how it was recorded, and frequent actions.
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
    QToolButton* times_; ///< shows the source of the op times and the GPU, with a menu of others
};

} // namespace headroom
