// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/widgets/budget_edit.h"

#include "views/plot/number_text.h"
#include "views/theme/looks.h"
#include "views/theme/theme.h"

#include <QHBoxLayout>
#include <QKeyEvent>
#include <QLabel>
#include <QLineEdit>

#include <algorithm>

namespace headroom {

BudgetEdit::BudgetEdit(QWidget* parent)
    : QWidget(parent)
    , line_(new QLineEdit(this))
    , unit_(new QLabel(this))
{
    auto* row = makeLayout<QHBoxLayout>(this, {0, 0, 0, 0}, 4);
    row->addWidget(line_);
    row->addWidget(unit_, 0, Qt::AlignBottom);
    row->addStretch(1);
    unit_->setContentsMargins(0, 0, 0, 3);
    line_->setTextMargins(-2, 0, 0, 0); // QLineEdit insets its text by two pixels
    line_->setAccessibleName(tr("Budget value"));
    line_->setAccessibleDescription(tr("Takes a size such as 12.5 GiB or 800 MiB"));
    line_->setToolTip(tr("Type a size: 12.5 GiB, 800 MiB"));
    line_->installEventFilter(this);
    setUnitOf(GiB);
    applyLook();
    connect(line_, &QLineEdit::textEdited, this, [this] { fitWidth(); });
    connect(line_, &QLineEdit::returnPressed, this, [this] { read(); });
    connect(line_, &QLineEdit::editingFinished, this, [this] {
        if (line_->isModified())
            read();
    });
}

void BudgetEdit::setValue(Bytes value)
{
    value_ = value;
    if (!line_->isModified())
        show();
}

void BudgetEdit::setUnitOf(Bytes largest)
{
    shownIn_ = byteUnitFor(static_cast<double>(largest));
    unit_->setText(QLatin1String(shownIn_.name));
    show();
}

void BudgetEdit::setDanger(bool danger)
{
    if (danger == danger_)
        return;
    danger_ = danger;
    applyLook();
}

void BudgetEdit::show()
{
    line_->setText(inUnit(value_, shownIn_, 2));
    line_->setModified(false);
    fitWidth();
    if (!problem_.isEmpty()) {
        problem_.clear();
        line_->setToolTip(tr("Type a size: 12.5 GiB, 800 MiB"));
        applyLook();
    }
}

// Fits the width to the text, so that the unit follows the number, with a usual number as the least.
void BudgetEdit::fitWidth()
{
    const QFontMetrics metrics(Theme::of(*this).numberLarge);
    const int text = metrics.horizontalAdvance(line_->text());
    line_->setFixedWidth(std::max(text, metrics.horizontalAdvance(QStringLiteral("00.00"))) + 5);
}

void BudgetEdit::read()
{
    QString text = line_->text().trimmed();
    bool plain = false;
    text.toDouble(&plain);
    if (plain)
        text += QLatin1Char(' ') + QLatin1String(shownIn_.name);
    const auto bytes = parseBytes(text.toStdString());
    if (!bytes) {
        problem_ = QString::fromStdString(bytes.error().message);
        line_->setToolTip(problem_);
        applyLook();
        return;
    }
    value_ = *bytes;
    show();
    Q_EMIT entered(value_);
}

bool BudgetEdit::eventFilter(QObject* watched, QEvent* event)
{
    if (watched != line_ || event->type() != QEvent::KeyPress)
        return QWidget::eventFilter(watched, event);
    switch (static_cast<QKeyEvent*>(event)->key()) {
    case Qt::Key_Up:
        Q_EMIT stepped(+1);
        return true;
    case Qt::Key_Down:
        Q_EMIT stepped(-1);
        return true;
    case Qt::Key_PageUp:
        Q_EMIT stepped(+16);
        return true;
    case Qt::Key_PageDown:
        Q_EMIT stepped(-16);
        return true;
    case Qt::Key_Escape:
        if (!line_->isModified())
            return false;
        show();
        return true;
    default:
        return false;
    }
}

void BudgetEdit::changeEvent(QEvent* event)
{
    QWidget::changeEvent(event);
    if (event->type() == QEvent::PaletteChange)
        applyLook();
}

void BudgetEdit::applyLook()
{
    const auto& theme = Theme::of(*this);
    const bool red = danger_ || !problem_.isEmpty();
    fitWidth();
    // Flat until it is used, so that it reads as a number first.
    line_->setStyleSheet(QStringLiteral("QLineEdit { font-family: Roboto; font-size: 20px; font-weight: 500; color: %1;"
                                        " background: transparent; border: none; border-bottom: 1px solid transparent;"
                                        " border-radius: 0; padding: 0; }"
                                        "QLineEdit:hover { border-bottom-color: %2; }"
                                        "QLineEdit:focus { border-bottom-color: %3; }")
                             .arg((red ? theme.danger : theme.text).name(), theme.hatch.name(), theme.text.name()));
    unit_->setStyleSheet(QStringLiteral("QLabel { font-size: 12px; color: %1; }").arg(theme.secondText.name()));
}

} // namespace headroom
