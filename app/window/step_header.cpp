// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/step_header.h"

#include "app/window/actions.h"
#include "app/window/plan_text.h"
#include "app/window/times_text.h"
#include "core/trace/remarks.h"
#include "views/theme/looks.h"
#include "views/widgets/elided_label.h"
#include "views/widgets/remarks_button.h"
#include "views/widgets/size_fields.h"

#include <QAction>
#include <QDir>
#include <QHBoxLayout>
#include <QLabel>
#include <QMenu>
#include <QToolButton>

namespace headroom {
namespace {

QToolButton* makeButton(QAction* action)
{
    auto* button = new QToolButton;
    button->setDefaultAction(action);
    button->setProperty("framed", true);
    button->setFocusPolicy(Qt::TabFocus);
    return button;
}

/// Joins the texts that are not empty, one in each line.
QString lines(QStringList texts)
{
    texts.removeAll(QString());
    return texts.join(QLatin1Char('\n'));
}

} // namespace

StepHeader::StepHeader(Actions& actions, QWidget* parent)
    : QWidget(parent)
    , name_(new QLabel(this))
    , sizes_(new SizeFields(this))
    , facts_(new ElidedLabel(ElidedLabel::Elide::end, this))
    , remarks_(new RemarksButton(this))
    , times_(new QToolButton(this))
{
    times_->setObjectName(QStringLiteral("stepTimes"));
    times_->setProperty("framed", true);
    times_->setFocusPolicy(Qt::TabFocus);
    times_->setPopupMode(QToolButton::InstantPopup);
    times_->setMenu(new QMenu(times_));
    connect(times_->menu(), &QMenu::aboutToShow, this, &StepHeader::fillTimes);
    name_->setObjectName(QStringLiteral("stepName"));
    name_->setProperty("selection", true);
    facts_->setObjectName(QStringLiteral("stepFacts"));
    facts_->setProperty("second", true);
    QToolButton* picture = makeButton(actions.pictureMenu->menuAction());
    picture->setPopupMode(QToolButton::InstantPopup);
    QToolButton* policy = makeButton(actions.exportPolicy);
    policy->setProperty("primary", true);
    auto* row = makeLayout<QHBoxLayout>(this, {6, 0, 0, 0}, 8);
    row->addWidget(name_);
    row->addSpacing(8);
    row->addWidget(sizes_);
    row->addSpacing(8);
    row->addWidget(facts_, 1);
    row->addWidget(remarks_);
    row->addWidget(times_);
    row->addWidget(makeButton(actions.fitStep));
    row->addWidget(picture);
    row->addWidget(policy);
}

void StepHeader::setStep(const OpenStepPtr& step)
{
    step_ = step;
    const StepTrace& trace = step->trace();
    times_->setVisible(trace.info.simulated);
    times_->setText(timesText(trace.info));
    times_->setToolTip(timesTip(*step));
    name_->setText(stepName(trace));
    name_->setToolTip(lines({QDir::toNativeSeparators(step->path), originText(trace)}));
    sizes_->setDimensions(canRecordAgain(trace) ? trace.info.dimensions : std::vector<StepInfo::Dimension>());
    facts_->setText(stepFacts(trace));
    facts_->setToolTip(lines({facts_->text(), whyFixedSizes(trace)}));
    QStringList said;
    for (const std::string& remark : remarks(trace))
        said << QString::fromStdString(remark);
    remarks_->setRemarks(said);
}

void StepHeader::fillTimes()
{
    const OpenStepPtr step = step_.lock();
    QMenu* menu = times_->menu();
    menu->clear();
    if (!step)
        return;
    const auto add = [this, menu](const QString& title, const std::vector<TimesEntry>& entries) {
        menu->addSection(title);
        for (const TimesEntry& entry : entries) {
            QAction* action = menu->addAction(entry.note.isEmpty() ? entry.text : entry.text + u'\t' + entry.note);
            action->setCheckable(true);
            action->setChecked(entry.isChosen);
            action->setEnabled(entry.isThere);
            if (!entry.isChosen)
                connect(action, &QAction::triggered, this, [this, times = entry.choice] { Q_EMIT timesWanted(times); });
        }
    };
    const TimesMenu times = timesMenu(*step);
    add(tr("Times"), times.models);
    if (!times.cards.empty())
        add(tr("Card"), times.cards);
}

} // namespace headroom
