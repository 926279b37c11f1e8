// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/window/card_text.h"

#include <QWidget>

#include <array>

class QLabel;
class QPushButton;
class QToolButton;

namespace headroom {

class ElidedLabel;
class Session;

/// The card for training: the chooser, whether the shown plan runs there, and offers of what to do otherwise. The bar
/// follows the session.
class CardBar : public QWidget
{
    Q_OBJECT
public:
    explicit CardBar(Session& session, QWidget* parent = nullptr);

Q_SIGNALS:
    void stateChanged(headroom::CardLine::State state); ///< never State::computing
    void cardWanted(const std::string& card); ///< as CardChoice::card
    void planWanted(); ///< the budget is to follow the plan for the card
    void helpWanted(); ///< what would help is to be listed
    void largerWanted(); ///< the step is to be recorded again as on a larger card

private:
    void fillMenu();
    void askForSize();
    void showCard();
    void showLine();
    void showOffers(const std::vector<CardOffer>& offers);
    void take(const CardOffer& offer);

    Session& session_;
    QToolButton* card_;
    QLabel* mark_;
    ElidedLabel* verdict_;
    std::array<QPushButton*, 3> buttons_;
    std::vector<CardOffer> offers_;
    QString spoken_; ///< the last verdict that screen readers were told
};

} // namespace headroom
