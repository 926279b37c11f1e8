// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/widgets/allocator_panel.h"

#include "views/theme/looks.h"

#include <QHBoxLayout>
#include <QLabel>
#include <QLineEdit>
#include <QSignalBlocker>
#include <QVBoxLayout>

namespace headroom {

AllocatorPanel::AllocatorPanel(QWidget* parent)
    : QWidget(parent)
    , settings_(new QLineEdit(this))
    , card_(new QLineEdit(this))
    , words_(new QLabel(this))
    , plot_(new ReservedPlot(this))
{
    settings_->setObjectName(QStringLiteral("allocatorSettings"));
    settings_->setPlaceholderText(tr("PyTorch's defaults, or for example expandable_segments:True"));
    settings_->setAccessibleName(tr("Allocator settings, as in PYTORCH_CUDA_ALLOC_CONF"));
    settings_->setClearButtonEnabled(true);
    card_->setObjectName(QStringLiteral("allocatorCard"));
    card_->setPlaceholderText(tr("no limit, or 24GiB"));
    card_->setAccessibleName(tr("Memory of the card, or its name"));
    card_->setMaximumWidth(170);
    words_->setWordWrap(true);
    words_->setProperty("second", true);
    words_->setTextInteractionFlags(Qt::TextSelectableByMouse);

    auto* row = new QHBoxLayout;
    row->setSpacing(8);
    auto* settingsLabel = new QLabel(tr("&Settings"), this);
    settingsLabel->setBuddy(settings_);
    auto* cardLabel = new QLabel(tr("&Card"), this);
    cardLabel->setBuddy(card_);
    row->addWidget(settingsLabel);
    row->addWidget(settings_, 1);
    row->addWidget(cardLabel);
    row->addWidget(card_);
    auto* column = makeLayout<QVBoxLayout>(this, {12, 8, 12, 8}, 6);
    column->addLayout(row);
    column->addWidget(words_);
    column->addWidget(plot_, 1);
    for (QLineEdit* edit : {settings_, card_})
        connect(edit, &QLineEdit::textChanged, this, &AllocatorPanel::questionChanged);
}

QString AllocatorPanel::settings() const
{
    return settings_->text().trimmed();
}

QString AllocatorPanel::card() const
{
    return card_->text().trimmed();
}

void AllocatorPanel::setQuestion(const QString& settings, const QString& card)
{
    const QSignalBlocker settingsQuiet(settings_);
    const QSignalBlocker cardQuiet(card_);
    settings_->setText(settings);
    card_->setText(card);
}

void AllocatorPanel::showAnswer(const QString& words, const ReservedCurves& curves)
{
    words_->setText(words);
    plot_->setCurves(curves);
}

void AllocatorPanel::showProblem(const QString& sentence)
{
    words_->setText(sentence);
}

} // namespace headroom
