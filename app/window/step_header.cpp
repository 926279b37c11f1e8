// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/step_header.h"

#include "app/window/actions.h"
#include "app/window/plan_text.h"
#include "views/widgets/elided_label.h"
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

/// Those that are not empty, one below the other.
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
    , facts_(new ElidedLabel(Qt::ElideRight, this))
    , times_(new QToolButton(this))
{
    times_->setObjectName(QStringLiteral("stepTimes"));
    times_->setProperty("framed", true);
    times_->setFocusPolicy(Qt::TabFocus);
    connect(times_, &QToolButton::clicked, actions.calibratedTimes, &QAction::trigger);
    name_->setObjectName(QStringLiteral("stepName"));
    name_->setProperty("selection", true);
    facts_->setObjectName(QStringLiteral("stepFacts"));
    facts_->setProperty("second", true);
    QToolButton* picture = makeButton(actions.pictureMenu->menuAction());
    picture->setPopupMode(QToolButton::InstantPopup);
    QToolButton* policy = makeButton(actions.exportPolicy);
    policy->setProperty("primary", true);
    auto* row = new QHBoxLayout(this);
    row->setContentsMargins(6, 0, 0, 0);
    row->setSpacing(8);
    row->addWidget(name_);
    row->addSpacing(8);
    row->addWidget(sizes_);
    row->addSpacing(8);
    row->addWidget(facts_, 1);
    row->addWidget(times_);
    row->addWidget(makeButton(actions.fitStep));
    row->addWidget(picture);
    row->addWidget(policy);
}

void StepHeader::setStep(const StepTrace& trace, const QString& path, const StepTimes& times)
{
    const QString gpu = QString::fromStdString(times.gpu);
    times_->setVisible(!gpu.isEmpty());
    times_->setText(times.calibrated ? tr("Times calibrated on %1").arg(gpu) : tr("Times of the model"));
    times_->setToolTip(times.calibrated
                           ? tr("Ops take as long as was measured on %1 (%2). Click for those of the time model.")
                                 .arg(gpu, QDir::toNativeSeparators(QString::fromStdString(times.file.string())))
                           : tr("Ops take as long as the time model says. Click for the times measured on %1 (%2).")
                                 .arg(gpu, QDir::toNativeSeparators(QString::fromStdString(times.file.string()))));
    name_->setText(stepName(trace));
    name_->setToolTip(lines({QDir::toNativeSeparators(path), originText(trace)}));
    sizes_->setDimensions(canRecordAgain(trace) ? trace.info.dimensions : std::vector<StepInfo::Dimension>());
    facts_->setText(stepFacts(trace));
    facts_->setToolTip(lines({facts_->text(), whyFixedSizes(trace)}));
}

} // namespace headroom
