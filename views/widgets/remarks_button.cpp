// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/widgets/remarks_button.h"

#include "views/theme/looks.h"

#include <QLabel>
#include <QMenu>
#include <QScreen>
#include <QScrollArea>
#include <QScrollBar>
#include <QVBoxLayout>
#include <QWidgetAction>

namespace headroom {
namespace {

constexpr int popupWidth = 420;
constexpr int margin = 12;
constexpr qsizetype mostInTip = 5;
constexpr double mostOfScreen = 0.6; // of its height, before the popup scrolls

} // namespace

RemarksButton::RemarksButton(QWidget* parent)
    : QToolButton(parent)
    , sentences_(new QWidgetAction(this))
{
    setObjectName(QStringLiteral("remarks"));
    setProperty("framed", true);
    setFocusPolicy(Qt::TabFocus);
    setPopupMode(QToolButton::InstantPopup);
    setMenu(new QMenu(this));
    menu()->setObjectName(QStringLiteral("remarksPopup"));
    hide();
}

void RemarksButton::setRemarks(const QStringList& remarks)
{
    setVisible(!remarks.isEmpty());
    setText(remarks.size() == 1 ? tr("1 remark") : tr("%1 remarks").arg(remarks.size()));
    // A tool tip cannot scroll.
    setToolTip(remarks.size() <= mostInTip ? remarks.join(QLatin1Char('\n'))
                                           : tr("What differs from the card, and what that may change"));
    setAccessibleDescription(remarks.join(QStringLiteral(". ")));
    auto* page = new QWidget;
    auto* column = makeLayout<QVBoxLayout>(page, {margin, margin - 4, margin, margin - 4}, 8);
    const auto add = [&](const QString& text) {
        auto* label = new QLabel(text);
        label->setTextFormat(Qt::PlainText);
        label->setWordWrap(true);
        label->setFixedWidth(popupWidth);
        column->addWidget(label);
        return label;
    };
    add(tr("Not what the card would do, and what that may change:"))->setProperty("second", true);
    for (const QString& remark : remarks) {
        QLabel* label = add(remark);
        label->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
        label->setAccessibleName(remark);
    }
    auto* scroll = new QScrollArea;
    scroll->setFrameShape(QFrame::NoFrame);
    scroll->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    scroll->setWidget(page);
    page->adjustSize();
    const int most = static_cast<int>(mostOfScreen * screen()->availableSize().height());
    const bool scrolls = page->height() > most;
    const int bar = scrolls ? scroll->verticalScrollBar()->sizeHint().width() : 0;
    scroll->setFixedSize(page->width() + bar, scrolls ? most : page->height());
    // A menu asks an action for its widget when the action is added.
    menu()->removeAction(sentences_);
    sentences_->setDefaultWidget(scroll);
    menu()->addAction(sentences_);
}

} // namespace headroom
