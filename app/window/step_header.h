// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/window/card_text.h"
#include "app/window/open_step.h"

#include <QWidget>

#include <array>

class QLabel;
class QToolButton;

namespace headroom {

class Actions;
class CardBar;
class ElidedLabel;
class RemarksButton;
class Session;
class SizeFields;

/// The two lines above the panels: the open step, the kind of recording, and frequent actions; and the card for
/// training.
class StepHeader : public QWidget
{
    Q_OBJECT
public:
    StepHeader(Session& session, Actions& actions, QWidget* parent = nullptr);

    void setStep(const OpenStepPtr& step);
    void setCauses(const CausesPtr& causes); ///< null: not known yet
    SizeFields* sizes() const noexcept { return sizes_; }
    CardBar* card() const noexcept { return card_; }

Q_SIGNALS:
    void timesWanted(const headroom::TimeChoice& times);
    void lineWanted(headroom::FrameId frame); ///< the line of a cause was clicked

private:
    void fillTimes();
    void showRemarks();
    void showTimes();
    void showExport(CardLine::State state);

    const Session& session_;
    std::weak_ptr<const OpenStep> step_;
    QLabel* name_;
    SizeFields* sizes_;
    ElidedLabel* facts_;
    RemarksButton* remarks_;
    std::array<QToolButton*, 3> buttons_;
    CardBar* card_;
    RemarksButton* causes_;
    CausesPtr found_; ///< shown causes; null: not known yet
    QToolButton* times_; ///< shows the source of the op times and the GPU, with a menu of other times
};

} // namespace headroom
