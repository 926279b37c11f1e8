// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/step_header.h"

#include "app/recording/recorder_program.h"
#include "app/window/actions.h"
#include "app/window/card_bar.h"
#include "app/window/session.h"
#include "app/window/step_text.h"
#include "app/window/what_if.h"
#include "core/trace/remarks.h"
#include "views/plot/number_text.h"
#include "views/theme/styles.h"
#include "views/widgets/labels.h"
#include "views/widgets/message_bar.h"
#include "views/widgets/size_fields.h"

#include <QAction>
#include <QDir>
#include <QHBoxLayout>
#include <QLabel>
#include <QMenu>
#include <QToolButton>
#include <QVBoxLayout>

#include <algorithm>

namespace headroom {
namespace {

/// Made before the other buttons: widgets get the focus in the order of creation.
QToolButton* makeButton(QAction* action, QWidget* parent)
{
    auto* button = new QToolButton(parent);
    button->setDefaultAction(action);
    button->setProperty("framed", true);
    button->setFocusPolicy(Qt::TabFocus);
    return button;
}

/// Joins the texts that are not empty, a text in each line.
QString lines(QStringList texts)
{
    texts.removeAll(QString());
    return texts.join(QLatin1Char('\n'));
}

} // namespace

StepHeader::StepHeader(Session& session, Actions& actions, QWidget* parent)
    : QWidget(parent)
    , session_(session)
    , name_(makeLabel(this))
    , sizes_(new SizeFields(this))
    , facts_(new ElidedLabel(ElidedLabel::Elide::end, this))
    , remarks_(new RemarksButton(this))
    , buttons_{makeButton(actions.fitStep, this), makeButton(actions.pictureMenu->menuAction(), this),
               makeButton(actions.exportPolicy, this)}
    , card_(new CardBar(session, this))
    , causes_(new RemarksButton(this))
    , times_(new QToolButton(this))
{
    times_->setObjectName(QStringLiteral("stepTimes"));
    times_->setProperty("framed", true);
    times_->setFocusPolicy(Qt::TabFocus);
    times_->setPopupMode(QToolButton::InstantPopup);
    times_->setMenu(new QMenu(times_));
    connect(times_->menu(), &QMenu::aboutToShow, this, &StepHeader::fillTimes);
    connect(&session, &Session::cardChanged, this, &StepHeader::showTimes);
    connect(card_, &CardBar::stateChanged, this, &StepHeader::showExport);
    name_->setObjectName(QStringLiteral("stepName"));
    name_->setProperty("selection", true);
    facts_->setObjectName(QStringLiteral("stepFacts"));
    facts_->setProperty("second", true);
    buttons_[1]->setPopupMode(QToolButton::InstantPopup);
    buttons_[2]->setProperty("primary", true);
    auto* column = makeLayout<QVBoxLayout>(this, {6, 0, 0, 0}, 6);
    auto* row = makeLayout<QHBoxLayout>(nullptr, {0, 0, 0, 0}, 8);
    row->addWidget(name_);
    row->addSpacing(8);
    row->addWidget(sizes_);
    row->addSpacing(8);
    row->addWidget(facts_, 1);
    row->addWidget(remarks_);
    for (QToolButton* button : buttons_)
        row->addWidget(button);
    column->addLayout(row);
    auto* below = makeLayout<QHBoxLayout>(nullptr, {0, 0, 0, 0}, 8);
    remarks_->setObjectName(QStringLiteral("remarks"));
    causes_->setObjectName(QStringLiteral("causes"));
    connect(causes_, &RemarksButton::linkClicked, this,
            [this](qsizetype cause) { Q_EMIT lineWanted((*found_)[static_cast<std::size_t>(cause)].frame); });
    below->addWidget(card_, 1);
    below->addWidget(causes_);
    below->addWidget(times_);
    column->addLayout(below);
}

void StepHeader::setStep(const OpenStepPtr& step)
{
    step_ = step;
    const StepTrace& trace = step->trace();
    times_->setVisible(trace.info.simulated);
    showTimes();
    times_->setToolTip(timesTip(*step));
    name_->setText(stepName(trace));
    name_->setToolTip(lines({QDir::toNativeSeparators(step->path), originText(trace)}));
    sizes_->setDimensions(sizesOf(trace));
    facts_->setText(stepFacts(trace));
    facts_->setToolTip(lines({facts_->text(), whyFixedSizes(trace)}));
    setCauses(nullptr);
}

void StepHeader::setCauses(const CausesPtr& causes)
{
    found_ = causes;
    QStringList sentences;
    QStringList links;
    for (const Cause& cause : causes ? *causes : std::vector<Cause>()) {
        sentences << sentence(QString::fromStdString(cause.sentence));
        links << (cause.line.empty() ? QString() : tr("At %1").arg(QString::fromStdString(cause.line)));
    }
    causes_->setSentences(tr("Why %1?").arg(bytesText(session_.recordedPeak(), 2)),
                          tr("Why the step takes this memory, the most likely cause first:"), sentences, links);
    showRemarks();
}

/// Shows the remarks that no cause says as well.
void StepHeader::showRemarks()
{
    const OpenStepPtr step = step_.lock();
    QStringList said;
    for (const std::string& remark : step ? remarks(step->trace()) : std::vector<std::string>())
        if (!found_ || std::ranges::find(*found_, remark, &Cause::remark) == found_->end())
            said << QString::fromStdString(remark);
    remarks_->setSentences(said.size() == 1 ? tr("1 remark") : tr("%1 remarks").arg(said.size()),
                           tr("Not what the card would do, and what that may change:"), said);
}

void StepHeader::showTimes()
{
    if (session_.isOpen())
        times_->setText(timesBesideCard(session_));
}

/// The policy of a plan that does not run is not what the window proposes.
void StepHeader::showExport(CardLine::State state)
{
    const bool proposed = state != CardLine::State::fails;
    if (buttons_[2]->property("primary").toBool() != proposed)
        setStyleProperty(*buttons_[2], "primary", proposed);
}

void StepHeader::fillTimes()
{
    const OpenStepPtr step = step_.lock();
    QMenu* menu = times_->menu();
    menu->clear();
    if (!step)
        return;
    for (const TimesEntry& entry : timesMenu(*step))
        addChoice(*menu, entry.text, entry.note, entry.isChosen, [this, times = entry.choice] {
            Q_EMIT timesWanted(times);
        })->setEnabled(entry.isThere);
}

} // namespace headroom
