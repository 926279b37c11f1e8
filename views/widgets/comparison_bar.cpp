// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/widgets/comparison_bar.h"

#include "views/theme/styles.h"
#include "views/widgets/labels.h"

#include <QHBoxLayout>
#include <QLabel>
#include <QToolButton>
#include <QVBoxLayout>

namespace headroom {

ComparisonBar::ComparisonBar(QWidget* parent)
    : QWidget(parent)
    , title_(new ElidedLabel(ElidedLabel::Elide::middle, this))
    , axis_(new ElidedLabel(ElidedLabel::Elide::end, this))
    , close_(makeCloseButton(tr("Stop comparing"), this))
{
    setAccessibleName(tr("Comparison with a measured step"));
    title_->setObjectName(QStringLiteral("comparisonTitle"));
    title_->setProperty("strong", true);
    axis_->setObjectName(QStringLiteral("comparisonAxis"));
    axis_->setProperty("second", true);
    auto* row = makeLayout<QHBoxLayout>(this, {12, 6, 6, 6}, 20);
    auto* words = new QVBoxLayout;
    words->setSpacing(1);
    words->addWidget(title_);
    words->addWidget(axis_);
    row->addLayout(words, 1);
    auto* peak = new QWidget;
    auto* times = new QWidget;
    peak_ = figure(peak, tr("Peak"));
    peak_->setObjectName(QStringLiteral("comparisonPeak"));
    times_ = figure(times, tr("All ops"));
    times_->setObjectName(QStringLiteral("comparisonTimes"));
    row->addWidget(peak);
    row->addWidget(times);
    close_->setObjectName(QStringLiteral("stopComparing"));
    close_->setText(QStringLiteral("✕"));
    close_->setFocusPolicy(Qt::TabFocus);
    connect(close_, &QToolButton::clicked, this, &ComparisonBar::closed);
    row->addWidget(close_, 0, Qt::AlignTop);
}

QLabel* ComparisonBar::figure(QWidget* column, const QString& caption)
{
    auto* lines = makeLayout<QVBoxLayout>(column, {0, 0, 0, 0}, 1);
    auto* head = makeLabel(caption, "second", column);
    auto* value = makeLabel(column);
    lines->addWidget(head);
    lines->addWidget(value);
    return value;
}

void ComparisonBar::setFacts(const ComparisonFacts& facts)
{
    title_->setText(facts.title);
    title_->setToolTip(facts.title);
    axis_->setText(facts.axis);
    axis_->setToolTip(facts.axis);
    peak_->setText(facts.peak);
    times_->setText(facts.times);
    setAccessibleDescription(text());
}

QString ComparisonBar::text() const
{
    return QStringList{title_->text(), axis_->text(), peak_->text(), times_->text()}.join(QLatin1Char('\n'));
}

} // namespace headroom
