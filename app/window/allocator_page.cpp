// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/allocator_page.h"

#include "app/recording/sentence.h"
#include "app/window/session.h"
#include "core/allocator/replay.h"
#include "core/cost/card_memory.h"
#include "core/cost/workspaces.h"
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

/// The recorded reserved bytes, which the trace has by event, over the time of its ops.
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
    QString text
        = AllocatorPage::tr("Reserved at most %1, of which %2 are in use then; %3 lie free in segments in use.")
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
    if (const Bytes kept = workspaces.keptBytes(), during = workspaces.mostDuringAnOp(); kept + during > 0)
        answer.words += AllocatorPage::tr(" With workspaces: %1 of cuBLAS, at most %2 of cuDNN (estimated).")
                            .arg(bytesText(kept, 2), bytesText(during, 2));
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

Result<AllocatorRules> allocatorRules(const QString& settings, const QString& card, const StepTrace& trace)
{
    AllocatorRules rules;
    if (!card.isEmpty()) {
        if (const Result<DeviceSpec> device = findDeviceSpec(card.toStdString()); device.ok()) {
            rules.capacity = cardMemory(*device, trace).allocators();
            rules.total = device->memory;
        } else {
            const Result<Bytes> bytes = parseBytes(card.toStdString());
            if (!bytes || *bytes == 0)
                return badInput("card `" + card.toStdString()
                                + "`: expected its memory, such as 24GiB, or a name, such as rtx-4090-24gb");
            rules.capacity = *bytes;
        }
    }
    return withAllocatorSettings(rules, settings.toStdString());
}

Workspaces workspacesOn(const QString& card, const StepTrace& trace)
{
    const Result<DeviceSpec> device = findDeviceSpec(card.toStdString());
    return device ? workspacesOf(trace, *device) : Workspaces();
}

AllocatorPage::AllocatorPage(Session& session, QObject* parent)
    : QObject(parent)
    , session_(session)
    , panel_(new AllocatorPanel)
{
    connect(panel_, &AllocatorPanel::questionChanged, this, &AllocatorPage::ask);
    connect(&session_, &Session::stepChanged, this, &AllocatorPage::showStep);
    connect(&session_, &Session::answerChanged, this, &AllocatorPage::ask);
}

void AllocatorPage::setShown(bool shown)
{
    if (shown == std::exchange(shown_, shown))
        return;
    ask();
}

/// Fills in the settings with which the step was recorded.
void AllocatorPage::showStep()
{
    if (!session_.isOpen())
        return;
    panel_->setQuestion(QString::fromStdString(recordedAllocatorSettings(session_.step()->trace().info)), {});
    ask();
}

void AllocatorPage::ask()
{
    const quint64 question = ++asked_;
    if (!shown_ || !session_.isOpen())
        return;
    const Result<AllocatorRules> rules = allocatorRules(panel_->settings(), panel_->card(), session_.step()->trace());
    if (!rules) {
        panel_->showProblem(QString::fromStdString(rules.error().message));
        return;
    }
    const OpenStepPtr step = session_.step();
    const TimelinePtr planned = session_.shownTimeline();
    const TimelinePtr timeline = planned ? planned : step->engine->recorded();
    lane_.post([this, question, step, timeline, rules = *rules, card = panel_->card()](std::stop_token) {
        const auto answer = std::make_shared<const AllocatorAnswer>(
            allocatorAnswer(step->trace(), *timeline, rules, workspacesOn(card, step->trace()), stretches));
        callLater(this, [this, question, answer] {
            if (question != asked_)
                return;
            panel_->showAnswer(answer->words, answer->curves);
            Q_EMIT answered();
        });
    });
}

} // namespace headroom
