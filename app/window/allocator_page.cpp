// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/allocator_page.h"

#include "app/recording/recorder_program.h"
#include "app/window/session.h"
#include "core/allocator/replay.h"
#include "core/policy/card.h"
#include "views/plot/call_later.h"
#include "views/plot/number_text.h"
#include "views/widgets/allocator_panel.h"

#include <algorithm>
#include <memory>

namespace headroom {

namespace {

constexpr std::size_t stretches = 1200;

/// Keeps the highest bytes of each stretch of the time axis.
class Stretches
{
public:
    Stretches(double durationMs, std::size_t count, Bytes start)
        : durationMs_(durationMs)
        , highest_(count, -1)
        , last_(start)
    {
        highest_.front() = start;
    }

    void add(double ms, Bytes bytes)
    {
        const std::size_t at = place(ms);
        fillUpTo(at);
        highest_[at] = std::max({highest_[at], last_, bytes});
        last_ = bytes;
    }

    /// Returns the curve up to `endMs`, where memory ran out; nullopt: up to the end.
    BytesOverTime finish(std::optional<double> endMs)
    {
        const std::size_t end = endMs ? place(*endMs) : highest_.size() - 1;
        fillUpTo(end);
        highest_[end] = std::max(highest_[end], last_);
        highest_.resize(end + 1);
        return std::move(highest_);
    }

private:
    std::size_t place(double ms) const
    {
        const double share = durationMs_ > 0 ? std::clamp(ms / durationMs_, 0.0, 1.0) : 0;
        return std::min(static_cast<std::size_t>(share * static_cast<double>(highest_.size())), highest_.size() - 1);
    }

    void fillUpTo(std::size_t end)
    {
        for (; filled_ < end; ++filled_)
            highest_[filled_] = std::max(highest_[filled_], last_);
    }

    double durationMs_;
    BytesOverTime highest_;
    Bytes last_;
    std::size_t filled_ = 0;
};

/// The recorded reserved bytes, by event in the trace, over the time of the ops.
BytesOverTime recordedCurve(const StepTrace& trace, double durationMs, std::size_t count)
{
    if (trace.reserved.size() == 0)
        return {};
    Stretches recorded(durationMs, count, trace.reserved.bytes.front());
    double ms = 0;
    std::size_t row = 1;
    for (std::uint32_t i = 0; i < trace.events.size() && row < trace.reserved.size(); ++i) {
        const EventIndex event(i);
        for (; row < trace.reserved.size() && trace.reserved.event[row] <= event; ++row)
            recorded.add(ms, trace.reserved.bytes[row]);
        if (trace.events.kind[event] == EventKind::opEnd)
            ms += trace.ops.ms[OpId(trace.events.a[event])];
    }
    return recorded.finish(std::nullopt);
}

QString words(const StepTrace& trace, const Timeline& timeline, const AllocatorRules& rules, const AllocatorRun& run)
{
    QString text = AllocatorPage::tr("Reserved at most %1, with %2 in use then; %3 lie free in segments in use.")
                       .arg(bytesText(run.stats.reservedPeak, 2), bytesText(run.atPeak.active, 2),
                            bytesText(run.atPeak.inactiveSplit, 2));
    if (trace.reserved.size() > 0)
        text += AllocatorPage::tr(" Recorded: %1.").arg(bytesText(std::ranges::max(trace.reserved.bytes), 2));
    if (run.stats.retries > 0)
        text += AllocatorPage::tr(" The card was full %n time(s), and unused segments went back.", nullptr,
                                  static_cast<int>(run.stats.retries));
    for (const std::string& note : {noteOnActive(timeline), noteOnRules(rules)})
        if (!note.empty())
            text += QLatin1Char(' ') + sentence(QString::fromStdString(note));
    if (run.failure)
        return AllocatorPage::tr("Does not fit: %1.")
            .arg(QString::fromStdString(outOfMemorySentence(trace, *run.failure)));
    return text;
}

} // namespace

AllocatorAnswer allocatorAnswer(const StepTrace& trace, const Timeline& timeline, const AllocatorRules& rules,
                                const Workspaces& workspaces, std::size_t count)
{
    const AllocatorRun run = simulateAllocator(trace, timeline, rules, workspaces);
    AllocatorAnswer answer;
    answer.words = words(trace, timeline, rules, run);
    if (workspaces.any())
        answer.words
            += AllocatorPage::tr(" With workspaces: %1 of cuBLAS, at most %2 of cuDNN (estimated), and scratch "
                                 "memory of kernels, at most %3.")
                   .arg(bytesText(workspaces.keptBytes(), 2), bytesText(workspaces.mostDuringAnOp(), 2),
                        bytesText(workspaces.mostScratch(), 2));
    answer.curves.durationMs = timeline.durationMs;
    answer.curves.intervals = count;
    answer.curves.capacity = rules.capacity;
    Stretches active(timeline.durationMs, count, run.start.active);
    Stretches reserved(timeline.durationMs, count, run.start.reserved);
    for (std::size_t i = 0; i < run.samples.size(); ++i) {
        active.add(timeline.changes[i].ms, run.samples[i].active);
        reserved.add(timeline.changes[i].ms, run.samples[i].reserved);
    }
    if (run.failure)
        answer.curves.failureMs = run.failure->ms;
    answer.curves.active = active.finish(answer.curves.failureMs);
    answer.curves.reserved = reserved.finish(answer.curves.failureMs);
    answer.curves.recorded = recordedCurve(trace, timeline.durationMs, count);
    return answer;
}

AllocatorPage::AllocatorPage(Session& session, QObject* parent)
    : QObject(parent)
    , session_(session)
    , panel_(new AllocatorPanel)
{
    connect(panel_, &AllocatorPanel::settingsChanged, this, [this] {
        if (session_.isOpen())
            session_.chooseAllocator(panel_->settings().toStdString());
        ask(); // settings that are wrong change nothing, and are said
    });
    for (const auto changed : {&Session::stepChanged, &Session::cardChanged})
        connect(&session_, changed, this, &AllocatorPage::showSettings);
    connect(&session_, &Session::answerChanged, this, &AllocatorPage::ask);
}

void AllocatorPage::setShown(bool shown)
{
    if (shown == std::exchange(shown_, shown))
        return;
    ask();
}

/// Fills in the chosen settings, else the recorded program's settings.
void AllocatorPage::showSettings()
{
    if (!session_.isOpen())
        return;
    const std::optional<std::string>& chosen = session_.cardChoice().settings;
    panel_->setSettings(
        QString::fromStdString(chosen.value_or(recordedAllocatorSettings(session_.step()->trace().info))));
    ask();
}

void AllocatorPage::ask()
{
    const quint64 request = ++asked_;
    if (!shown_ || !session_.isOpen())
        return;
    const Result<AllocatorRules> rules = withAllocatorSettings({}, panel_->settings().toStdString());
    if (!rules) {
        panel_->showProblem(QString::fromStdString(rules.error().message));
        return;
    }
    Card card;
    card.rules = *rules;
    if (session_.card())
        card = *session_.card();
    const OpenStepPtr step = session_.step();
    const TimelinePtr planned = session_.shownTimeline();
    const TimelinePtr timeline = planned ? planned : step->engine->recorded();
    lane_.post([this, request, step, timeline, card](std::stop_token) {
        const auto answer = std::make_shared<const AllocatorAnswer>(
            allocatorAnswer(step->trace(), *timeline, card.rules, card.workspaces, stretches));
        callLater(this, [this, request, answer] {
            if (request != asked_)
                return;
            panel_->showAnswer(answer->words, answer->curves);
            Q_EMIT answered();
        });
    });
}

} // namespace headroom
