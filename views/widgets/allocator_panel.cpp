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
    , words_(new QLabel(this))
    , plot_(new ReservedPlot(this))
{
    settings_->setObjectName(QStringLiteral("allocatorSettings"));
    settings_->setPlaceholderText(tr("PyTorch's defaults, or for example expandable_segments:True"));
    settings_->setAccessibleName(tr("Allocator settings, as in PYTORCH_CUDA_ALLOC_CONF"));
    settings_->setClearButtonEnabled(true);
    words_->setWordWrap(true);
    words_->setProperty("second", true);
    words_->setTextInteractionFlags(Qt::TextSelectableByMouse);

    auto* row = new QHBoxLayout;
    row->setSpacing(8);
    auto* settingsLabel = new QLabel(tr("&Settings"), this);
    settingsLabel->setBuddy(settings_);
    row->addWidget(settingsLabel);
    row->addWidget(settings_, 1);
    auto* column = makeLayout<QVBoxLayout>(this, {12, 8, 12, 8}, 6);
    column->addLayout(row);
    column->addWidget(words_);
    column->addWidget(plot_, 1);
    connect(settings_, &QLineEdit::textChanged, this, &AllocatorPanel::settingsChanged);
}

QString AllocatorPanel::settings() const
{
    return settings_->text().trimmed();
}

void AllocatorPanel::setSettings(const QString& settings)
{
    const QSignalBlocker quiet(settings_);
    if (settings_->text().trimmed() != settings) // the cursor stays while settings are typed
        settings_->setText(settings);
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
