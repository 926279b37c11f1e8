// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/widgets/verify_row.h"

#include "views/theme/looks.h"

#include <QHBoxLayout>
#include <QLabel>
#include <QProgressBar>
#include <QPushButton>
#include <QVBoxLayout>

namespace headroom {

VerifyRow::VerifyRow(QWidget* parent)
    : QWidget(parent)
    , button_(new QPushButton(tr("Verify"), this))
    , progress_(makeProgressBar(this))
    , text_(new QLabel(this))
{
    setObjectName(QStringLiteral("verifyRow"));
    button_->setObjectName(QStringLiteral("verifyButton"));
    text_->setObjectName(QStringLiteral("verifyText"));
    text_->setWordWrap(true);
    text_->setTextInteractionFlags(Qt::TextSelectableByMouse);
    progress_->setAccessibleName(tr("Share of the verification that is done"));
    auto* row = new QHBoxLayout;
    row->setSpacing(8);
    row->addWidget(button_);
    row->addWidget(progress_, 1);
    row->addStretch(0);
    auto* column = makeLayout<QVBoxLayout>(this, {0, 4, 0, 4}, 4);
    column->addLayout(row);
    column->addWidget(text_);
    connect(button_, &QPushButton::clicked, this, [this] {
        if (running_)
            Q_EMIT cancelWanted();
        else
            Q_EMIT wanted();
    });
    setVerdict(Verdict::none, {});
}

void VerifyRow::setOffer(bool possible, const QString& why)
{
    button_->setEnabled(possible || running_);
    button_->setToolTip(why);
    button_->setAccessibleDescription(why);
}

void VerifyRow::setProgress(double share, const QString& stage)
{
    running_ = true;
    verdict_ = Verdict::none;
    button_->setText(tr("Cancel"));
    button_->setEnabled(true);
    progress_->show();
    showShare(*progress_, share);
    setDanger(*text_, false);
    text_->setText(tr("Verifying: %1").arg(stage));
    text_->show();
}

void VerifyRow::setVerdict(Verdict verdict, const QString& text)
{
    running_ = false;
    verdict_ = verdict;
    button_->setText(tr("Verify"));
    progress_->hide();
    text_->setText(verdict == Verdict::kept ? QStringLiteral("✓ %1").arg(text) : text);
    text_->setVisible(!text.isEmpty());
    setDanger(*text_, verdict == Verdict::broken);
}

QString VerifyRow::text() const
{
    return text_->text();
}

} // namespace headroom
