// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/card_bar.h"

#include "app/window/session.h"
#include "views/theme/styles.h"
#include "views/widgets/labels.h"

#include <QClipboard>
#include <QDialogButtonBox>
#include <QGuiApplication>
#include <QHBoxLayout>
#include <QInputDialog>
#include <QLineEdit>
#include <QMenu>
#include <QPushButton>
#include <QToolButton>

#include <utility>

namespace headroom {

CardBar::CardBar(Session& session, QWidget* parent)
    : QWidget(parent)
    , session_(session)
    , card_(new QToolButton(this))
    , mark_(makeLabel(this))
    , verdict_(new ElidedLabel(ElidedLabel::Elide::end, this, 2))
    , buttons_{new QPushButton(this), new QPushButton(this), new QPushButton(this)}
{
    card_->setObjectName(QStringLiteral("card"));
    card_->setProperty("framed", true);
    card_->setFocusPolicy(Qt::TabFocus);
    card_->setPopupMode(QToolButton::InstantPopup);
    card_->setMenu(new QMenu(card_));
    card_->setToolTip(tr("The card for training: recordings, times and plans are for this card"));
    mark_->setObjectName(QStringLiteral("cardMark"));
    verdict_->setObjectName(QStringLiteral("cardVerdict"));
    auto* row = makeLayout<QHBoxLayout>(this, {0, 0, 0, 0}, 8);
    row->addWidget(card_);
    row->addWidget(mark_);
    row->addWidget(verdict_, 1);
    for (std::size_t i = 0; i < buttons_.size(); ++i) {
        buttons_[i]->setObjectName(QStringLiteral("cardOffer%1").arg(i));
        buttons_[i]->hide();
        connect(buttons_[i], &QPushButton::clicked, this, [this, i] { take(CardOffer(offers_[i])); });
        row->addWidget(buttons_[i]);
    }
    connect(card_->menu(), &QMenu::aboutToShow, this, &CardBar::fillMenu);
    for (const auto changed : {&Session::stepChanged, &Session::cardChanged})
        connect(&session_, changed, this, &CardBar::showCard);
    for (const auto changed : {&Session::requestChanged, &Session::answerChanged, &Session::verdictChanged,
                               &Session::cardPlanChanged, &Session::cardChanged})
        connect(&session_, changed, this, &CardBar::showLine);
}

void CardBar::fillMenu()
{
    QMenu* menu = card_->menu();
    menu->clear();
    if (!session_.isOpen())
        return;
    bool isEntry = false;
    for (const CardEntry& entry : cardMenu(session_)) {
        if (menu->actions().size() == 2)
            menu->addSection(tr("Cards"));
        isEntry = isEntry || entry.isChosen;
        addChoice(*menu, entry.text, entry.note, entry.isChosen,
                  [this, card = entry.card] { Q_EMIT cardWanted(card); });
    }
    menu->addSeparator();
    const auto ask = [this] { askForSize(); };
    QAction* size = addChoice(*menu, tr("A size …"), isEntry ? QString() : chosenCard(session_), !isEntry, ask);
    if (!isEntry) // another size
        connect(size, &QAction::triggered, this, ask);
}

void CardBar::askForSize()
{
    auto* dialog = new QInputDialog(this);
    dialog->setObjectName(QStringLiteral("cardSize"));
    dialog->setAttribute(Qt::WA_DeleteOnClose);
    dialog->setWindowTitle(tr("Memory for the allocator"));
    dialog->setLabelText(tr("What the caching allocator may reserve, without CUDA's context, for example 21 GiB:"));
    const auto isSize = [](const QString& text) {
        const Result<Bytes> bytes = parseBytes(text.toStdString());
        return bytes && *bytes > 0;
    };
    dialog->open();
    auto* edit = dialog->findChild<QLineEdit*>();
    auto* buttons = dialog->findChild<QDialogButtonBox*>();
    if (edit && buttons) {
        const auto check = [buttons, isSize](const QString& text) {
            buttons->button(QDialogButtonBox::Ok)->setEnabled(isSize(text));
        };
        connect(edit, &QLineEdit::textChanged, dialog, check);
        check(edit->text());
    }
    connect(dialog, &QInputDialog::textValueSelected, this, [this, isSize](const QString& text) {
        if (isSize(text))
            Q_EMIT cardWanted(text.trimmed().toStdString());
    });
}

void CardBar::showCard()
{
    if (!session_.isOpen())
        return;
    const QString card = chosenCard(session_);
    card_->setText(session_.card() ? tr("Card: %1").arg(card) : card);
    card_->setAccessibleName(tr("Card of the training: %1").arg(card));
    showOffers({});
    showLine();
}

void CardBar::showLine()
{
    if (!session_.isOpen())
        return;
    const CardLine line = cardLine(session_);
    const bool isComputing = line.state == CardLine::State::computing;
    const char* mark = line.state == CardLine::State::runs ? "✓" : line.state == CardLine::State::fails ? "✕" : "";
    mark_->setText(QString::fromUtf8(mark));
    if (mark_->property("danger").toBool() != (line.state == CardLine::State::fails))
        setDanger(*mark_, line.state == CardLine::State::fails);
    if (verdict_->text() != line.text)
        verdict_->setText(line.text);
    verdict_->setToolTip(line.tip);
    verdict_->setAccessibleName(line.text);
    verdict_->setAccessibleDescription(line.tip);
    if (isComputing)
        return; // offers are of the card, not of the shown plan: during a drag the offers stay in place
    showOffers(line.offers);
    Q_EMIT stateChanged(line.state);
    if (!session_.dragging() && std::exchange(spoken_, line.text) != line.text)
        announce(*verdict_);
}

void CardBar::showOffers(const std::vector<CardOffer>& offers)
{
    offers_ = offers;
    for (std::size_t i = 0; i < buttons_.size(); ++i) {
        const bool isThere = i < offers.size();
        if (isThere && buttons_[i]->text() != offers[i].text) {
            buttons_[i]->setText(offers[i].text);
            buttons_[i]->setToolTip(offers[i].tip);
        }
        if (buttons_[i]->isHidden() == isThere)
            buttons_[i]->setVisible(isThere);
    }
}

void CardBar::take(const CardOffer& offer)
{
    switch (offer.action) {
    case CardOffer::Action::budget:
        session_.setMode(PlanMode::modules);
        session_.commitBudget(offer.budget);
        break;
    case CardOffer::Action::settings:
        session_.setMode(PlanMode::modules);
        session_.chooseAllocator(offer.settings);
        Q_EMIT planWanted();
        break;
    case CardOffer::Action::copy:
        QGuiApplication::clipboard()->setText(
            QStringLiteral("PYTORCH_CUDA_ALLOC_CONF=%1").arg(QString::fromStdString(offer.settings)));
        break;
    case CardOffer::Action::recordLarger:
        Q_EMIT largerWanted();
        break;
    case CardOffer::Action::help:
        Q_EMIT helpWanted();
        break;
    }
}

} // namespace headroom
