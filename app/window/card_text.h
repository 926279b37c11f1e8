// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/bytes.h"
#include "views/plot/budget_steps.h"

#include <QString>

#include <string>
#include <vector>

namespace headroom {

class Session;

/// An entry of the menu of cards.
struct CardEntry
{
    QString text; ///< "NVIDIA L4"
    QString note; ///< "recorded", "other kernels"; may be empty
    std::string card; ///< as CardChoice::card
    bool isChosen = false;
};

/// The card of the step, none, and the known GPUs.
std::vector<CardEntry> cardMenu(const Session& session);
/// "RTX 4090", "21.00 GiB", "No card".
QString chosenCard(const Session& session);

/// Something that the user can do about the card, with a single click.
struct CardOffer
{
    enum class Action { budget, settings, copy, recordLarger, help };
    Action action;
    QString text;
    QString tip;
    Bytes budget = 0; ///< of Action::budget
    std::string settings = {}; ///< of the other actions: as in PYTORCH_CUDA_ALLOC_CONF
};

/// What is known of the shown plan on the chosen card.
struct CardLine
{
    enum class State { unknown, computing, runs, fails };
    State state = State::unknown;
    QString text;
    QString tip;
    std::vector<CardOffer> offers;
};
CardLine cardLine(const Session& session);

/// The plan for the card as a stop of the budget.
std::vector<CardStop> cardStops(const Session& session);
/// The peaks of plans of the frontier that do not run on the card, ascending, as far as known.
std::vector<Bytes> failingPeaks(const Session& session);

} // namespace headroom
