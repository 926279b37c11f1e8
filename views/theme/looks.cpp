// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/theme/looks.h"

#include <QAccessible>
#include <QFrame>
#include <QLabel>
#include <QProgressBar>
#include <QStyle>
#include <QToolButton>

namespace headroom {
namespace {

constexpr int progressSteps = 1000;

} // namespace

QLabel* makeLabel(const QString& text, const char* look, QWidget* parent)
{
    auto* label = new QLabel(text, parent);
    label->setProperty(look, true);
    return label;
}

QFrame* makeCard(QWidget* parent)
{
    auto* card = new QFrame(parent);
    card->setProperty("card", true);
    return card;
}

QToolButton* makeSegment(const QString& text, QWidget* parent)
{
    auto* button = new QToolButton(parent);
    button->setText(text);
    button->setCheckable(true);
    button->setProperty("segment", true);
    return button;
}

QToolButton* makeCloseButton(const QString& tip, QWidget* parent)
{
    auto* button = new QToolButton(parent);
    button->setText(QStringLiteral("×"));
    button->setAutoRaise(true);
    button->setToolTip(tip);
    button->setAccessibleName(tip);
    return button;
}

QProgressBar* makeProgressBar(QWidget* parent)
{
    auto* bar = new QProgressBar(parent);
    bar->setFixedHeight(6);
    bar->setTextVisible(false);
    return bar;
}

void showShare(QProgressBar& bar, double share)
{
    bar.setRange(0, share < 0 ? 0 : progressSteps);
    if (share >= 0)
        bar.setValue(static_cast<int>(share * progressSteps));
}

void setLook(QWidget& widget, const char* property, const QVariant& value)
{
    widget.setProperty(property, value);
    widget.style()->unpolish(&widget);
    widget.style()->polish(&widget);
}

void setDanger(QLabel& label, bool danger)
{
    label.setProperty("second", !danger);
    setLook(label, "danger", danger);
}

void announce(QWidget& widget)
{
    if (!QAccessible::isActive())
        return;
    QAccessibleEvent event(&widget, QAccessible::Alert);
    QAccessible::updateAccessibility(&event);
}

} // namespace headroom
