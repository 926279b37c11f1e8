// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/card_text.h"

#include "app/recording/recorder_program.h"
#include "app/window/session.h"
#include "app/window/step_text.h"
#include "core/cost/card_memory.h"
#include "core/trace/out_of_memory.h"
#include "views/plot/number_text.h"

#include <QCoreApplication>

#include <map>

namespace headroom {
namespace {

QString tr(const char* text, int count = -1)
{
    return QCoreApplication::translate("CardText", text, nullptr, count);
}

/// "expandable segments", or the value of the variable.
QString settingsTitle(const std::string& settings)
{
    return settings == "expandable_segments:True" ? tr("expandable segments") : QString::fromStdString(settings);
}

QString cardTitle(const Card& card)
{
    return shortCardTitle(QString::fromStdString(card.title));
}

/// The card, with allocator settings that are not PyTorch's defaults: "RTX 4090 with expandable segments".
QString placeTitle(const Card& card)
{
    const std::string settings = allocatorSettings(card.rules);
    return settings.empty() ? cardTitle(card) : tr("%1 with %2").arg(cardTitle(card), settingsTitle(settings));
}

/// Why the card is not quite the card of the recording; empty: the same card.
QString otherKernels(const Session& session)
{
    const StepTrace& file = *session.step()->file;
    const std::string& name = session.card()->name;
    if (name.empty() || !file.info.simulated || name == file.info.gpu || standsFor(file, name))
        return {};
    return tr("recorded with the kernels of %1").arg(shortCardTitle(gpuTitle(file.info.gpu)));
}

QString cause(const Session& session)
{
    const Bytes peak = session.answer()->timeline->peak, room = session.card()->forTensors();
    return peak > room ? tr("tensors take %1 of %2").arg(bytesText(peak, 2), bytesText(room, 2)) : tr("fragmentation");
}

std::vector<CardOffer> offersOf(const Session& session, bool runs)
{
    std::vector<CardOffer> offers;
    const PlanAnswerPtr& plan = session.cardPlan();
    if (const Bytes budget = session.cardBudget(); budget > 0 && !runs)
        offers.push_back({CardOffer::Action::budget, tr("Use %1 (runs)").arg(bytesText(budget, 2)),
                          tr("Set the budget of the plan that recomputes least on this card"), budget});
    if (plan && plan->card->better) {
        const BetterSettings& better = *plan->card->better;
        const QString name = settingsTitle(better.settings);
        const QString variable = tr("PYTORCH_CUDA_ALLOC_CONF=%1").arg(QString::fromStdString(better.settings));
        offers.push_back(
            {CardOffer::Action::settings,
             runs ? tr("Save %1 with %2").arg(msText(better.savedMs), name)
                  : tr("Use %1 with %2").arg(bytesText(better.peak, 2), name),
             tr("Plan for the card with %1. The policy carries the setting; training has to set it.").arg(variable), 0,
             better.settings});
    }
    const std::optional<std::string>& chosen = session.cardChoice().settings;
    if (runs && chosen && !chosen->empty())
        offers.push_back(
            {CardOffer::Action::copy, tr("Copy variable"),
             tr("Copy PYTORCH_CUDA_ALLOC_CONF=%1 to set for training").arg(QString::fromStdString(*chosen)), 0,
             *chosen});
    if (plan && !plan->preliminary && !plan->runs())
        offers.push_back({CardOffer::Action::help, tr("What would help"),
                          tr("List changes that make the step take less memory, and what each costs")});
    return offers;
}

CardLine withoutCard(const Session& session)
{
    const bool isChosen = session.cardChoice().card == CardChoice::none;
    return {CardLine::State::unknown,
            isChosen ? tr("Whether a plan runs is not looked at")
                     : tr("Whether a plan runs is not known: choose the card of the training"),
            tr("Without a card, the budget counts bytes that the step allocates, not what the allocator reserves."),
            {}};
}

/// The line of a step that ended with a full card.
CardLine endedEarly(const Session& session)
{
    const StepTrace& trace = session.step()->trace();
    CardLine line{CardLine::State::fails,
                  tr("Out of memory on %1 during the recording").arg(shortCardTitle(gpuTitle(trace.info.gpu))),
                  sentence(QString::fromStdString(whyOutOfMemory(trace, outOfMemoryEvents(trace).back()))),
                  {}};
    if (!recordedScript(trace).isEmpty())
        line.offers.push_back({CardOffer::Action::recordLarger, tr("Record again as on a larger card"),
                               tr("Record the whole step, to plan for the card (--unlimited)")});
    return line;
}

CardLine ofVerdict(const Session& session, const CardVerdict& verdict)
{
    const QString card = placeTitle(*verdict.card);
    QString more;
    CardLine line;
    line.state = verdict.run.runs ? CardLine::State::runs : CardLine::State::fails;
    line.offers = offersOf(session, verdict.run.runs);
    if (verdict.run.runs) {
        line.text = tr("Runs on %1, %2 left").arg(card, bytesText(verdict.run.left, 2));
        if (verdict.card->margin > 0)
            line.text += tr(" (%1 margin)").arg(bytesText(verdict.card->margin, 2));
        line.tip
            = tr("Training reserves %1 at most, from the first step on.").arg(bytesText(verdict.run.reservedPeak, 2));
        if (verdict.run.retries > 0)
            more = tr("; unused segments go back %n time(s) a step", static_cast<int>(verdict.run.retries));
    } else {
        line.text = tr("Out of memory on %1: %2").arg(card, cause(session));
        line.tip = sentence(tr("step %1 of training: ").arg(verdict.run.failedStep)
                            + QString::fromStdString(verdict.run.reason));
        const PlanAnswerPtr& plan = session.cardPlan();
        if (!plan && plannable(session.step()->trace()))
            more = tr("; looking for a plan that runs …");
        else if (plan && !plan->runs())
            more = tr("; no plan runs, the least that would do is %1").arg(bytesText(plan->card->leastMemory, 2));
    }
    const QString kernels = otherKernels(session);
    line.text += more + (kernels.isEmpty() ? QString() : tr("; %1").arg(kernels));
    for (const std::string& assumed : verdict.run.assumptions)
        line.tip += QLatin1Char(' ') + sentence(QString::fromStdString(assumed));
    return line;
}

} // namespace

std::vector<CardEntry> cardMenu(const Session& session)
{
    const OpenStep& step = *session.step();
    const StepInfo& info = step.file->info;
    const std::string& chosen = session.cardChoice().card;
    const bool isKnown = findDeviceSpec(info.gpu).ok();
    std::vector<CardEntry> menu{{tr("Card of the recording"),
                                 isKnown ? shortCardTitle(gpuTitle(info.gpu)) : tr("not known"),
                                 {},
                                 chosen.empty()},
                                {tr("No card"), {}, CardChoice::none, chosen == CardChoice::none}};
    std::map<int, bool> isSame; // by compute capability: whether the kernels are the recorded GPU's kernels
    for (const DeviceSpec& device : deviceSpecs()) {
        const auto [same, isNew] = isSame.try_emplace(device.computeCapability, true);
        if (isNew && info.simulated && isKnown)
            same->second = standsFor(*step.file, device.name).ok();
        const QString note = device.name == info.gpu ? tr("recorded") : same->second ? QString() : tr("other kernels");
        menu.push_back({QString::fromStdString(device.title), note, device.name, device.name == chosen});
    }
    return menu;
}

QString chosenCard(const Session& session)
{
    return session.card() ? cardTitle(*session.card()) : tr("No card");
}

CardLine cardLine(const Session& session)
{
    if (endedOutOfMemory(session.step()->trace()))
        return endedEarly(session);
    if (!session.card())
        return withoutCard(session);
    const QString card = placeTitle(*session.card());
    if (session.worldSize() > 1 && session.mode() == PlanMode::modules)
        return {
            CardLine::State::unknown,
            tr("Not known for %1 GPUs: record a rank of the job").arg(session.worldSize()),
            tr("A step of one GPU has no parameters gathered by FSDP. Processes per node, in the dialog that records a "
               "script, record a rank of the job."),
            {}};
    if (session.answerIsCurrent() && !session.feasible())
        return {CardLine::State::fails,
                tr("No plan fits this budget, so none runs on %1").arg(card),
                {},
                offersOf(session, false)};
    if (session.verdict())
        return ofVerdict(session, *session.verdict());
    return {CardLine::State::computing, tr("Running the plan on %1 …").arg(card), {}, {}};
}

std::vector<CardStop> cardStops(const Session& session)
{
    if (session.cardBudget() == 0)
        return {};
    return {{placeTitle(*session.cardPlan()->card->card).toStdString(), session.cardBudget()}};
}

std::vector<Bytes> failingPeaks(const Session& session)
{
    return session.cardPoints() ? session.cardPoints()->failing : std::vector<Bytes>();
}

} // namespace headroom
