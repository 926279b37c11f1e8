// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/changes_search.h"

#include "app/recording/recorder_program.h"
#include "app/recording/step_processes.h"
#include "app/window/session.h"
#include "core/base/try.h"
#include "views/plot/call_later.h"
#include "views/plot/number_text.h"
#include "views/widgets/fit_panel.h"

#include <QCoreApplication>
#include <QDir>

#include <filesystem>
#include <span>
#include <utility>

namespace headroom {
namespace {

const std::string allocatorVariable = "PYTORCH_CUDA_ALLOC_CONF=";

ChangesSearch::RecordVariantStep makeFitRecorder(const FitProgram& program)
{
    const std::shared_ptr<FitRecorder> recorder(new FitRecorder(program, processesAtOnce()), [](FitRecorder* at) {
        at->finish();
        delete at;
    });
    return [recorder](const StepSize& size, const std::vector<std::string>& options, const std::string& gpu,
                      const std::stop_token& stop) { return recorder->recordVariant(size, options, gpu, stop); };
}

/// The program of a model, whose variants can be recorded; without words for a script and other steps.
FitProgram modelOf(const StepTrace& file, const std::string& recorder)
{
    Result<FitProgram> program = fitProgramOf(file, "this step", recorder);
    return program && !program->isScript ? *std::move(program) : FitProgram();
}

} // namespace

ChangesSearch::ChangesSearch(Session& session, FitPanel& panel, QObject* parent)
    : QObject(parent)
    , session_(session)
    , panel_(panel)
{
    connect(&panel_, &FitPanel::changeChosen, this, &ChangesSearch::choose);
    connect(&session_, &Session::stepChanged, this, [this] {
        if (session_.peakBefore() == 0) // another document, not the open step with a change
            forget();
    });
}

void ChangesSearch::use(Parts parts)
{
    parts_ = std::move(parts);
    if (!parts_.makeRecorder)
        parts_.makeRecorder = makeFitRecorder;
}

void ChangesSearch::forget()
{
    ++number_;
    stop_.request_stop();
    if (std::exchange(running_, false))
        panel_.setRunning(false);
    changes_.reset();
    panel_.showChanges(nullptr);
}

void ChangesSearch::begin(const QString& words)
{
    stop_ = std::stop_source();
    running_ = true;
    panel_.setRunning(true);
    panel_.showProgress(-1, words);
}

void ChangesSearch::end()
{
    running_ = false;
    panel_.setRunning(false);
    Q_EMIT ended();
}

void ChangesSearch::start()
{
    if (running_ || !session_.isOpen())
        return;
    if (!session_.card()) {
        panel_.showProblem(tr("What would help depends on the card: choose a card in the header."));
        return;
    }
    const OpenStepPtr& step = session_.step();
    subject_ = {step->engine->trace(),
                step->choice,
                session_.card(),
                modelOf(*step->file, parts_.recorder),
                {step->file->info.batch, step->file->info.sequence, 1}};
    subject_.times.gpu = subject_.card->name.empty() ? step->trace().info.gpu : subject_.card->name;
    begin(subject_.program.words.empty()
              ? tr("Calculating what would help on %1").arg(QString::fromStdString(subject_.card->title))
              : tr("Calculating, and recording variants: what would help on %1")
                    .arg(QString::fromStdString(subject_.card->title)));
    runner_.post([this, number = ++number_, subject = subject_, make = parts_.makeRecorder,
                  own = stop_](const std::stop_token& closing) {
        const std::stop_callback passOn(closing, [own]() mutable { own.request_stop(); });
        RecordVariant variant;
        if (!subject.program.words.empty())
            variant
                = [&, record = make(subject.program)](const std::vector<std::string>& options) -> Result<StepTracePtr> {
                ASSIGN_OR_RETURN(const RecordedStep made,
                                 record(subject.size, options, subject.times.gpu, own.get_token()));
                ASSIGN_OR_RETURN(const TimedStep timed, withTimes(made.step, subject.times));
                return timed.step;
            };
        const auto found = std::make_shared<const Result<Changes>>(
            changesThatHelp(subject.step, *subject.card, variant, own.get_token()));
        callLater(this, [this, number, found] {
            if (number == number_)
                show(*found);
        });
    });
}

void ChangesSearch::show(const Result<Changes>& found)
{
    const bool wasCancelled = stop_.stop_requested();
    end();
    if (wasCancelled) {
        panel_.say(tr("Cancelled."));
        return;
    }
    if (!found) {
        panel_.showProblem(sentence(QString::fromStdString(found.error().message)));
        return;
    }
    changes_ = std::make_shared<const Changes>(*found);
    panel_.showChanges(changes_);
    const Unchanged& before = changes_->before;
    const QString card = shortCardTitle(QString::fromStdString(subject_.card->title));
    panel_.say(changes_->list.empty()
                   ? tr("No change that was tried frees memory on %1.").arg(card)
                   : (before.run.runs ? tr("Runs on %1 with %2 at the peak; Return takes a change over")
                                      : tr("Does not run on %1: %2 at the peak; Return takes a change "
                                           "over"))
                         .arg(card, bytesText(before.peak, 2)),
               QString::fromStdString(before.run.reason));
}

void ChangesSearch::cancel()
{
    if (!running_)
        return;
    stop_.request_stop();
    panel_.setEnding();
    panel_.showProgress(-1, tr("Ending the recordings"));
}

void ChangesSearch::choose(std::size_t change)
{
    if (running_ || !changes_ || change >= changes_->list.size() || !session_.isOpen())
        return;
    const Change& chosen = changes_->list[change];
    const QString what = QString::fromStdString(chosen.what);
    if (chosen.plan) {
        session_.setMode(PlanMode::modules);
        session_.commitBudget(chosen.plan->plan.peak);
    } else if (!chosen.gpu.empty()) {
        Q_EMIT cardWanted(chosen.gpu);
    } else if (chosen.how.starts_with(allocatorVariable)) {
        session_.chooseAllocator(chosen.how.substr(allocatorVariable.size()));
    } else if (!chosen.options.empty()) {
        record(chosen);
        return;
    } else if (chosen.cost == ChangeCost::time && !chosen.runs()) {
        panel_.say(tr("No plan runs on this card: %1").arg(sentence(QString::fromStdString(chosen.run.reason))));
        return;
    } else {
        panel_.say(tr("%1 is calculated: change the program. %2").arg(what, QString::fromStdString(chosen.how)));
        return;
    }
    panel_.say(tr("Taken over: %1. Undo goes back.").arg(what));
}

/// Records the variant, which the cache holds as a rule, and asks for the step in place of the open step.
void ChangesSearch::record(const Change& change)
{
    if (!place_) {
        // The name is a recording's folder name: if this program is killed, the next program removes the folder.
        QDir().mkpath(parts_.folder);
        place_ = std::make_unique<QTemporaryDir>(
            QDir(parts_.folder)
                .filePath(QStringLiteral(".recording-%1-help-XXXXXX").arg(QCoreApplication::applicationPid())));
    }
    const QString what = QString::fromStdString(change.what);
    const std::filesystem::path target
        = place_->filePath(QStringLiteral("change-%1.hrs").arg(++opened_)).toStdU16String();
    begin(tr("Recording the step: %1").arg(what));
    runner_.post([this, number = ++number_, subject = subject_, options = change.options, target, what,
                  make = parts_.makeRecorder, own = stop_](const std::stop_token& closing) {
        const std::stop_callback passOn(closing, [own]() mutable { own.request_stop(); });
        const auto made = [&]() -> Status {
            const RecordVariantStep record = make(subject.program);
            ASSIGN_OR_RETURN(const RecordedStep step,
                             record(subject.size, options, subject.times.gpu, own.get_token()));
            std::error_code problem;
            std::filesystem::copy_file(step.file, target, std::filesystem::copy_options::overwrite_existing, problem);
            return problem ? Status(badInput(step.file.string() + " cannot be copied: " + problem.message()))
                           : Status();
        };
        callLater(this, [this, number, what, target, gpu = subject.times.gpu, status = made()] {
            if (number != number_)
                return;
            const bool wasCancelled = stop_.stop_requested();
            end();
            if (wasCancelled)
                panel_.say(tr("Cancelled."));
            else if (!status)
                panel_.showProblem(tr("%1 cannot be recorded: %2")
                                       .arg(what, sentence(QString::fromStdString(status.error().message))));
            else {
                panel_.say(tr("Taken over: %1. Undo goes back.").arg(what));
                Q_EMIT stepWanted(QString::fromStdU16String(target.u16string()), what, gpu);
            }
        });
    });
}

} // namespace headroom
