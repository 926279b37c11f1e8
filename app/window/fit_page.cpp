// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/fit_page.h"

#include "app/recording/recorder_program.h"
#include "app/recording/step_processes.h"
#include "app/window/session.h"
#include "app/window/step_text.h"
#include "app/window/what_if.h"
#include "core/base/try.h"
#include "core/fit/fit_report.h"
#include "core/fit/fit_row.h"
#include "core/fit/sizes.h"
#include "views/plot/call_later.h"
#include "views/plot/number_text.h"
#include "views/theme/styles.h"
#include "views/widgets/labels.h"

#include <QCoreApplication>
#include <QDir>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <span>
#include <utility>

namespace headroom {
namespace {

constexpr int tickMs = 500;
const std::string thisStep = "this step";
constexpr std::int64_t sequenceStep = 64; ///< as the option --seq: odd lengths take other kernels

/// "0:07", "12:30".
QString clockText(qint64 ms)
{
    return QStringLiteral("%1:%2").arg(ms / 60'000).arg(ms / 1000 % 60, 2, 10, QLatin1Char('0'));
}

QString dimensionOf(const StepTrace& trace, const char* name)
{
    const auto& dimensions = trace.info.dimensions;
    const auto found = std::ranges::find(dimensions, name, &StepInfo::Dimension::name);
    return found == dimensions.end() ? QString() : QString::number(found->value);
}

Error inField(const QString& field, const Error& error)
{
    return {error.kind, field.toStdString() + ": " + error.message};
}

/// Records with a FitRecorder. The end of the recorder trims the cache.
RecordSteps makeFitRecorder(const FitProgram& program)
{
    const std::shared_ptr<FitRecorder> recorder(new FitRecorder(program, processesAtOnce()), [](FitRecorder* at) {
        at->finish();
        delete at;
    });
    return [recorder](std::span<const StepSize> sizes, const std::string& gpu, const std::stop_token& stop) {
        return recorder->record(sizes, gpu, stop);
    };
}

/// Records as many sizes at a time as run at once, and calls `tell` with the number of recorded sizes, and of all.
RecordSteps inTurns(const RecordSteps& record, const std::function<void(int done, int all)>& tell)
{
    return [=](std::span<const StepSize> sizes, const std::string& gpu, const std::stop_token& stop) {
        const auto atOnce = static_cast<std::size_t>(processesAtOnce());
        std::vector<Result<RecordedStep>> results;
        while (results.size() < sizes.size()) {
            tell(static_cast<int>(results.size()), static_cast<int>(sizes.size()));
            const auto turn = sizes.subspan(results.size(), std::min(atOnce, sizes.size() - results.size()));
            std::ranges::move(record(turn, gpu, stop), std::back_inserter(results));
        }
        tell(static_cast<int>(results.size()), static_cast<int>(sizes.size()));
        return results;
    };
}

/// Copies a recorded step out of the cache, before a trim, to `path`. Error (badInput): not possible.
Status copyStep(const std::filesystem::path& step, const std::filesystem::path& path)
{
    std::error_code problem;
    std::filesystem::copy_file(step, path, std::filesystem::copy_options::overwrite_existing, problem);
    return problem ? Status(badInput(step.string() + " cannot be copied: " + problem.message())) : Status();
}

} // namespace

FitPage::FitPage(Session& session, QObject* parent)
    : QObject(parent)
    , session_(session)
    , panel_(new FitPanel)
    , changes_(session, *panel_)
{
    ticks_.setInterval(tickMs);
    connect(&ticks_, &QTimer::timeout, this, &FitPage::showProgress);
    connect(panel_, &FitPanel::startWanted, this, &FitPage::start);
    connect(panel_, &FitPanel::cancelWanted, this, &FitPage::cancel);
    connect(panel_, &FitPanel::chosen, this, &FitPage::open);
    connect(panel_, &FitPanel::helpWanted, this, &FitPage::startChanges);
    connect(&session_, &Session::stepChanged, this, &FitPage::showStep);
    connect(&session_, &Session::cardChanged, this, [this] {
        if (!program_)
            showCards();
    });
}

void FitPage::use(Parts parts)
{
    parts_ = std::move(parts);
    if (!parts_.makeRecorder)
        parts_.makeRecorder = makeFitRecorder;
    changes_.use({parts_.recorder, parts_.folder, {}});
}

/// Another size of the program of the results leaves the results as they are.
void FitPage::showStep()
{
    if (!session_.isOpen()) {
        forget();
        return;
    }
    const StepTrace& file = *session_.step()->file;
    const Result<FitProgram> program = fitProgramOf(file, thisStep, parts_.recorder);
    if (program && program_ && isSameProgram(*program_, *program))
        return;
    forget();
    panel_->setWhyNot(program ? QString() : sentence(QString::fromStdString(program.error().message)));
    showCards();
    showFields();
}

void FitPage::showCards()
{
    if (!session_.isOpen())
        return;
    const StepTrace& file = *session_.step()->file;
    const std::string& chosen = session_.cardChoice().card;
    const std::string gpu = findDeviceSpec(chosen) ? chosen : file.info.gpu;
    std::vector<FitPanel::Card> cards;
    for (const DeviceSpec& device : deviceSpecs())
        cards.push_back({device.name, device.name == file.info.gpu ? tr("recorded") : QString(), device.name == gpu});
    panel_->setCards(cards);
}

void FitPage::showFields()
{
    const StepTrace& file = *session_.step()->file;
    if (trainingProgram(file).isEmpty()) {
        const QString sequence = dimensionOf(file, "sequence");
        panel_->setBatch(QStringLiteral("1.."), tr("1..64 or 1,2,4"));
        panel_->setSequence(sequence, sequence.isEmpty() ? QString() : tr("the model's own, or 512,1024"));
        return;
    }
    const std::vector<StepInfo::Dimension> sizes = scriptSizes(file);
    const bool isBatch = !sizes.empty() && isBatchName(sizes.front().name);
    panel_->setBatch(isBatch ? QString::fromStdString(sizes.front().name) + QStringLiteral("=1..") : QString(),
                     QStringLiteral("--batch-size=1.."));
    panel_->setSequence({}, QStringLiteral("--block-size=512,1024"));
}

void FitPage::forget()
{
    ++searches_;
    ++openings_;
    stop_.request_stop();
    ticks_.stop();
    searching_ = opening_ = false;
    program_.reset();
    result_ = {};
    panel_->setRunning(false);
    panel_->say({});
    panel_->showResult(nullptr, false);
}

/// Reads the fields besides the sizes. Errors (badInput): a field that is wrong.
Status FitPage::readRest(FitRequest& request) const
{
    bool ok = true;
    if (const QString text = panel_->globalBatch(); !text.isEmpty())
        request.globalBatch = text.toLongLong(&ok);
    ok = ok && (request.globalBatch > 0 || panel_->globalBatch().isEmpty());
    if (!ok)
        return badInput("Global batch `" + panel_->globalBatch().toStdString()
                        + "`: expected the samples of an optimizer step, as 256");
    if (const QString text = panel_->share(); !text.isEmpty())
        request.share = text.toDouble(&ok);
    if (!ok || !(request.share > 0 && request.share <= 1))
        return badInput("Share `" + panel_->share().toStdString()
                        + "`: expected the share of the card's memory that training may take, above 0 and up to 1");
    if (const QString text = panel_->beside(); !text.isEmpty()) {
        const Result<Bytes> bytes = parseBytes(text.toStdString());
        if (!bytes)
            return inField(tr("Beside"), bytes.error());
        request.beside = *bytes;
    }
    return {};
}

/// Reads the panel. Sets the arguments of a script's sizes. Errors (badInput): a field that is wrong.
Result<FitRequest> FitPage::readRequest(FitProgram& program) const
{
    FitRequest request;
    request.gpus = panel_->cards();
    request.times = session_.step()->choice;
    request.times.gpu.clear();
    request.settings = session_.cardChoice().settings;
    request.saysSizes = !program.isScript;
    RETURN_IF_ERROR(readRest(request));
    const auto read = [&](const QString& field, const QString& text, std::int64_t step, SizeArgument& argument,
                          Sizes& sizes) -> Status {
        if (text.isEmpty())
            return {};
        if (program.isScript) {
            const Result<VariedArgument> varied = parseVaried(text.toStdString(), step);
            if (!varied)
                return inField(field, varied.error());
            argument = varied->argument;
            sizes = varied->sizes;
            return {};
        }
        const Result<Sizes> parsed = Sizes::parse(text.toStdString(), step);
        if (!parsed)
            return inField(field, parsed.error());
        sizes = *parsed;
        return {};
    };
    RETURN_IF_ERROR(read(tr("Batch"), panel_->batch(), 1, program.batch, request.batch));
    RETURN_IF_ERROR(read(tr("Sequence"), panel_->sequence(), sequenceStep, program.sequence, request.sequence));
    if (program.isScript && panel_->batch().isEmpty() && panel_->sequence().isEmpty())
        return badInput("name the script's argument or environment variable for the batch, such as "
                        "--batch-size=1.. or env:BATCH=1..64");
    if (!program.isScript && request.batch.isOwn() && !request.sequence.isRange())
        request.batch = Sizes::range(1, 0, 1);
    const bool ofSequences = request.sequence.isRange();
    if (program.isScript)
        request.sizeName = ofSequences ? program.sequence.name : program.batch.name;
    else
        request.sizeName = ofSequences ? "sequence" : "batch";
    return request;
}

/// Calls `run` with the program of the open step, after the user's consent to a script's Python.
void FitPage::withProgram(const std::function<void(const FitProgram&)>& run)
{
    Result<FitProgram> program = fitProgramOf(*session_.step()->file, thisStep, parts_.recorder);
    if (!program) {
        panel_->showProblem(sentence(QString::fromStdString(program.error().message)));
        return;
    }
    if (!program->isScript)
        return run(*program);
    const OpenStepPtr step = session_.step();
    parts_.withPython(
        *step->file,
        [this, step, run, program = *program](const QString& python) mutable {
            program.python = python.toStdString();
            if (session_.step() == step)
                run(program);
        },
        [] {});
}

void FitPage::start()
{
    if (running() || !session_.isOpen())
        return;
    withProgram([this](FitProgram program) {
        const Result<FitRequest> request = readRequest(program);
        if (request)
            search(program, *request);
        else
            panel_->showProblem(sentence(QString::fromStdString(request.error().message)));
    });
}

void FitPage::startChanges()
{
    if (!running())
        changes_.start();
}

void FitPage::search(const FitProgram& program, const FitRequest& request)
{
    const quint64 number = ++searches_;
    program_ = program;
    request_ = request;
    result_ = {};
    stage_ = {};
    stop_ = std::stop_source();
    searching_ = true;
    panel_->showChanges(nullptr);
    since_.start();
    ticks_.start();
    panel_->setRunning(true);
    showResult();
    showProgress();
    searcher_.post(
        [this, number, program, request, make = parts_.makeRecorder, own = stop_](const std::stop_token& end) {
            const std::stop_callback passOn(end, [own]() mutable { own.request_stop(); });
            const auto later = [&](auto function) {
                callLater(this, [this, number, own, function] {
                    if (number == searches_ && !own.stop_requested())
                        function();
                });
            };
            const RecordSteps record = inTurns(make(program), [&](int done, int all) {
                later([this, done, all] {
                    stage_.done = done;
                    stage_.all = all;
                    if (done == 0)
                        stage_.since.start();
                    else
                        sizeMs_ = stage_.since.elapsed() / done;
                    showProgress();
                });
            });
            const FitWatch watch = [&](const FitSeries& series, const std::string& next) {
                later([this, next, found = std::make_shared<const FitSeries>(series)] { take(*found, next); });
            };
            const auto result = std::make_shared<const Result<FitResult>>(fit(request, record, watch, own.get_token()));
            callLater(this, [this, number, result] {
                if (number == searches_)
                    finish(*result);
            });
        });
}

void FitPage::take(const FitSeries& series, const std::string& next)
{
    const auto known = std::ranges::find_if(
        result_.series, [&](const FitSeries& at) { return at.gpu == series.gpu && at.other == series.other; });
    if (known == result_.series.end())
        result_.series.push_back(series);
    else
        *known = series;
    stage_.gpu = series.gpu;
    stage_.all = 0;
    stage_.words = next.empty() ? tr("calculating sizes") : QString::fromStdString(next);
    showResult();
    showProgress();
}

void FitPage::showResult()
{
    const bool any = std::ranges::any_of(result_.series, [](const FitSeries& series) { return !series.rows.empty(); });
    panel_->showResult(any ? std::make_shared<const FitResult>(result_) : nullptr, request_.sequence.isRange());
}

void FitPage::showProgress()
{
    if (opening_ && !searching_)
        return;
    QString words = stage_.words.isEmpty() ? tr("starting") : stage_.words;
    if (!stage_.gpu.empty()) {
        const std::size_t of
            = request_.gpus.size() * (request_.sequence.isRange() ? request_.batch : request_.sequence).count();
        const QString place = of > 1 ? tr(" (%1 of %2)").arg(result_.series.size()).arg(of) : QString();
        words = tr("%1%2, %3").arg(deviceTitle(stage_.gpu), place, words);
    }
    double share = -1;
    QString left;
    if (stage_.all > 0) {
        if (stage_.all > 1) {
            words += tr(", %1 of %2 done").arg(stage_.done).arg(stage_.all);
            share = static_cast<double>(stage_.done) / stage_.all;
        }
        // A size takes about as long as the sizes before: nothing else is known of the time.
        if (const qint64 ms = sizeMs_ * stage_.all - stage_.since.elapsed(); ms > tickMs)
            left = tr(", this recording about %1 more").arg(clockText(ms));
    }
    // The times come first: many sizes do not fit in the line.
    panel_->showProgress(share, tr("%1 so far%2: %3").arg(clockText(since_.elapsed()), left, words));
}

void FitPage::cancel()
{
    changes_.cancel();
    if (!searching_ && !opening_)
        return;
    stop_.request_stop();
    ticks_.stop();
    panel_->setEnding();
    panel_->showProgress(-1, tr("Ending the recordings"));
}

/// Of a cancelled search, the sizes before the end are known; the rows after have the end as failure.
void FitPage::finish(const Result<FitResult>& result)
{
    ticks_.stop();
    searching_ = false;
    const bool wasCancelled = stop_.stop_requested();
    panel_->setRunning(running());
    if (!wasCancelled && result)
        result_ = *result;
    showResult();
    const QString took = clockText(since_.elapsed());
    std::size_t rows = 0;
    std::vector<std::string> why;
    for (const FitSeries& series : result_.series) {
        rows += series.rows.size();
        std::ranges::move(failures(series, request_), std::back_inserter(why));
    }
    const bool any = std::ranges::any_of(result_.series, [](const FitSeries& series) {
        return std::ranges::any_of(series.rows, [](const FitRow& row) { return row.failure.empty(); });
    });
    if (wasCancelled)
        panel_->say(rows == 0       ? tr("Cancelled after %1, before a size was known.").arg(took)
                        : rows == 1 ? tr("Cancelled after %1. The size that is known stays.").arg(took)
                                    : tr("Cancelled after %1. The %2 sizes that are known stay.").arg(took).arg(rows));
    else if (!result)
        panel_->showProblem(sentence(QString::fromStdString(result.error().message)));
    else if (!any && !why.empty())
        panel_->showProblem(sentence(QString::fromStdString(why.front())));
    else
        panel_->say(summary(false), summary(true) + tr("\nThe search took %1.").arg(took));
    announce(*panel_->words());
    Q_EMIT ended();
}

namespace {

/// "batch 23 runs, 38 with a plan; fastest 24: 45.2 samples/s"
QString shortFindings(const FitSeries& series, const FitRequest& request)
{
    const bool ofSequences = request.sequence.isRange();
    const auto size = [&](std::size_t row) {
        return countText(ofSequences ? series.rows[row].size.sequence : series.rows[row].size.batch);
    };
    if (!series.largest)
        return FitPage::tr("no size that was tried runs");
    const QString name = QString::fromStdString(request.sizeName);
    QString text = series.largestPlain ? FitPage::tr("%1 %2 runs").arg(name, size(*series.largestPlain))
                                       : FitPage::tr("%1 %2 runs with a plan").arg(name, size(*series.largest));
    if (series.largestPlain && series.largest != series.largestPlain)
        text += FitPage::tr(", %1 with a plan").arg(size(*series.largest));
    if (!series.fastest)
        return text;
    const FitRun& run = series.rows[*series.fastest].best();
    return text + FitPage::tr("; fastest %1: ").arg(size(*series.fastest))
        + (ofSequences ? FitPage::tr("%1 tokens/s").arg(ratioText(run.tokensPerSecond))
                       : FitPage::tr("%1 samples/s").arg(ratioText(run.samplesPerSecond)));
}

} // namespace

/// What was found, by card; with `all` as whole sentences, and failures.
QString FitPage::summary(bool all) const
{
    QStringList lines;
    for (const FitSeries& series : result_.series) {
        QStringList found{shortFindings(series, request_)};
        if (all) {
            found.clear();
            for (const std::string& text : findings(series, request_))
                found << QString::fromStdString(text);
        }
        for (const std::string& remark : series.remarks)
            found << QString::fromStdString(remark);
        lines << deviceTitle(series.gpu) + QStringLiteral(": ") + found.join(QStringLiteral("; ")) + QLatin1Char('.');
        for (const std::string& failure : failures(series, request_))
            if (all)
                lines << sentence(QString::fromStdString(failure));
    }
    return lines.join(QLatin1Char(all ? '\n' : ' '));
}

void FitPage::open(std::size_t series, std::size_t row)
{
    if (!program_ || opening_ || series >= result_.series.size() || row >= result_.series[series].rows.size())
        return;
    const FitRow& at = result_.series[series].rows[row];
    QString size = tr("batch %1").arg(at.size.batch);
    if (request_.sequence.isRange() || request_.sequence.count() > 1)
        size += tr(", sequence %1").arg(at.size.sequence);
    if (!at.failure.empty()) {
        panel_->showProblem(tr("%1 failed: %2").arg(size, sentence(QString::fromStdString(at.failure))));
        return;
    }
    if (!place_) {
        // The name is a recording's folder name: if this program is killed, the next program removes the folder.
        QDir().mkpath(parts_.folder);
        place_ = std::make_unique<QTemporaryDir>(
            QDir(parts_.folder)
                .filePath(QStringLiteral(".recording-%1-fit-XXXXXX").arg(QCoreApplication::applicationPid())));
    }
    StepSize wanted = recordedSize(at.size);
    wanted.batch = request_.batch.isOwn() ? 0 : wanted.batch;
    wanted.sequence = request_.sequence.isOwn() ? 0 : wanted.sequence;
    const std::filesystem::path target
        = place_
              ->filePath(QString(size).remove(QLatin1Char(' ')).replace(QLatin1Char(','), QLatin1Char('-'))
                         + QStringLiteral(".hrs"))
              .toStdU16String();
    opening_ = true;
    if (!searching_) {
        stop_ = std::stop_source();
        panel_->setRunning(true);
        panel_->showProgress(
            -1, at.isRecorded ? tr("Opening %1").arg(size) : tr("Recording %1, to open the step").arg(size));
    }
    const std::string gpu = result_.series[series].gpu;
    opener_.post([this, number = ++openings_, wanted, gpu, target, size, file = at.step.file, program = *program_,
                  make = parts_.makeRecorder, own = stop_](const std::stop_token& end) {
        const std::stop_callback passOn(end, [own]() mutable { own.request_stop(); });
        const auto made = [&]() -> Result<std::string> {
            RecordedStep step{nullptr, file};
            if (file.empty() || !std::filesystem::exists(file)) {
                std::vector<Result<RecordedStep>> recorded = make(program)(std::span(&wanted, 1), gpu, own.get_token());
                ASSIGN_OR_RETURN(step, std::move(recorded.front()));
            }
            RETURN_IF_ERROR(copyStep(step.file, target));
            return target.string();
        };
        callLater(this, [this, number, size, gpu, path = std::make_shared<const Result<std::string>>(made())] {
            if (number == openings_)
                finishOpening(*path, size, gpu);
        });
    });
}

void FitPage::finishOpening(const Result<std::string>& file, const QString& size, const std::string& card)
{
    opening_ = false;
    panel_->setRunning(running());
    const bool wasCancelled = stop_.stop_requested();
    if (!searching_)
        panel_->say(wasCancelled ? tr("Cancelled.") : summary(false), summary(true));
    if (wasCancelled)
        return;
    if (file)
        Q_EMIT stepWanted(QString::fromStdString(*file), size, card);
    else
        panel_->showProblem(
            tr("%1 cannot be opened: %2").arg(size, sentence(QString::fromStdString(file.error().message))));
}

FitExport FitPage::exported() const
{
    return {stepName(*session_.step()->file).toStdString(), result_, request_.sequence.isRange()};
}

} // namespace headroom
