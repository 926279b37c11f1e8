// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/recording/record_request.h"

#include <QCoreApplication>
#include <QDir>
#include <QFileInfo>

#include <algorithm>
#include <utility>

namespace headroom {
namespace {

constexpr qlonglong mostSamples = 1'000'000'000;
constexpr qlonglong mostSteps = 1000;
constexpr qlonglong mostRanks = 65'536;

QString tr(const char* text)
{
    return QCoreApplication::translate("RecordRequest", text);
}

QString numberProblem(const QString& text, qlonglong least, qlonglong most)
{
    bool good = false;
    const qlonglong value = text.toLongLong(&good);
    if (text.isEmpty() || (good && value >= least && value <= most))
        return {};
    return tr("A whole number from %1 to %2").arg(least).arg(most);
}

QString settingsProblem(const QString& text)
{
    bool complete = true;
    for (const QString& word : shellWords(text, complete)) {
        if (word.indexOf(QLatin1Char('=')) < 1)
            return tr("“%1” has no value: write KEY=VALUE").arg(word);
    }
    return complete ? QString() : tr("A quote is not closed");
}

void addModelProblems(const RecordRequest& request, QMap<RecordField, QString>& found)
{
    found[RecordField::batch] = numberProblem(request.batch, 1, mostSamples);
    found[RecordField::sequence] = numberProblem(request.sequence, 1, mostSamples);
    found[RecordField::settings] = settingsProblem(request.settings);
    bool good = request.momentum.isEmpty() || request.optimizer != QLatin1String("sgd");
    if (!good) {
        const double momentum = request.momentum.toDouble(&good);
        good = good && momentum >= 0 && momentum <= 1;
    }
    found[RecordField::momentum] = good ? QString() : tr("A number from 0 to 1");
}

void addJobProblems(const RecordRequest& request, QMap<RecordField, QString>& found)
{
    found[RecordField::processes] = numberProblem(request.processes, 1, mostRanks);
    found[RecordField::nodes] = numberProblem(request.nodes, 1, mostRanks);
    if (request.processes.isEmpty() && !(request.nodes.isEmpty() && request.rank.isEmpty()))
        found[RecordField::processes] = tr("Of a job of several nodes or ranks: how many on each node");
    const qlonglong ranks = std::max(1LL, request.processes.toLongLong()) * std::max(1LL, request.nodes.toLongLong());
    found[RecordField::rank] = numberProblem(request.rank, 0, ranks - 1);
}

void addScriptProblems(const RecordRequest& request, QMap<RecordField, QString>& found)
{
    const QFileInfo interpreter(request.interpreter);
    if (request.interpreter.isEmpty())
        found[RecordField::interpreter]
            = tr("Choose the Python that runs this script, for example from the script's environment");
    else if (!interpreter.isFile() || !interpreter.isExecutable())
        found[RecordField::interpreter] = tr("%1 is no program").arg(QDir::toNativeSeparators(request.interpreter));
    bool complete = true;
    shellWords(request.scriptArguments, complete);
    found[RecordField::scriptArguments] = complete ? QString() : tr("A quote is not closed");
    if (!QFileInfo(request.workingFolder).isDir())
        found[RecordField::workingFolder] = tr("This folder is not there");
    found[RecordField::steps] = numberProblem(request.steps, 1, mostSteps);
    addJobProblems(request, found);
}

/// Adds an option with its value, unless the value is empty.
void add(QStringList& options, const char* option, const QString& value)
{
    if (!value.isEmpty())
        options << QString::fromLatin1(option) << value;
}

QStringList modelOptions(const RecordRequest& request)
{
    QStringList options;
    add(options, "--gpu", request.gpu);
    add(options, "--batch", request.batch);
    add(options, "--seq", request.sequence);
    if (request.precision == QLatin1String("autocast"))
        options << QStringLiteral("--autocast");
    else
        add(options, "--dtype", request.precision);
    add(options, "--optimizer", request.optimizer);
    if (request.optimizer == QLatin1String("sgd"))
        add(options, "--momentum", request.momentum);
    add(options, "--loss", request.loss);
    if (request.kind == SourceKind::exported && request.lifetimes != QLatin1String("frame"))
        add(options, "--lifetimes", request.lifetimes);
    if (request.holdOutput)
        options << QStringLiteral("--hold-output");
    bool complete = true;
    for (const QString& setting : shellWords(request.settings, complete))
        options << QStringLiteral("--set") << setting;
    return options;
}

QString quoted(const QString& word)
{
    static const QString plain = QStringLiteral("@%+=:,./-_~");
    bool safe = !word.isEmpty();
    for (const QChar c : word)
        safe = safe && ((c.unicode() < 128 && c.isLetterOrNumber()) || plain.contains(c));
    if (safe && !word.startsWith(QLatin1Char('~')))
        return word;
    QString inside = word;
    inside.replace(QLatin1Char('\''), QStringLiteral("'\\''"));
    return QLatin1Char('\'') + inside + QLatin1Char('\'');
}

using Member = QString RecordRequest::*;
using Members = std::initializer_list<std::pair<const char*, Member>>;

constexpr Members kindMembers{{"precision", &RecordRequest::precision}, {"optimizer", &RecordRequest::optimizer},
                              {"momentum", &RecordRequest::momentum},   {"loss", &RecordRequest::loss},
                              {"lifetimes", &RecordRequest::lifetimes}, {"interpreter", &RecordRequest::interpreter}};
constexpr Members fileMembers{{"batch", &RecordRequest::batch},
                              {"sequence", &RecordRequest::sequence},
                              {"settings", &RecordRequest::settings},
                              {"arguments", &RecordRequest::scriptArguments},
                              {"folder", &RecordRequest::workingFolder},
                              {"steps", &RecordRequest::steps},
                              {"processes", &RecordRequest::processes},
                              {"nodes", &RecordRequest::nodes},
                              {"rank", &RecordRequest::rank}};
const auto holdOutputKey = QStringLiteral("holdOutput");

QVariantMap choices(const RecordRequest& request, const Members& members)
{
    QVariantMap map;
    for (const auto& [key, member] : members)
        map.insert(QString::fromLatin1(key), request.*member);
    return map;
}

} // namespace

SourceKind sourceKind(const QString& path)
{
    const QString suffix = QFileInfo(path).suffix().toLower();
    if (suffix == QLatin1String("pt2"))
        return SourceKind::exported;
    if (suffix == QLatin1String("pt"))
        return SourceKind::torchScript;
    if (suffix == QLatin1String("py"))
        return SourceKind::script;
    if (suffix == QLatin1String("ipynb"))
        return SourceKind::notebook;
    for (const char* weights : {"pth", "ckpt", "safetensors"}) {
        if (suffix == QLatin1String(weights))
            return SourceKind::weights;
    }
    return SourceKind::step;
}

QString whyNotOpened(SourceKind kind, const QString& path)
{
    const QString name = QFileInfo(path).fileName();
    if (kind == SourceKind::weights)
        return tr("%1 holds weights without the model: open the training script (.py), or a model file of "
                  "torch.export.save or torch.jit.save.")
            .arg(name);
    if (kind == SourceKind::notebook)
        return tr("%1 is a notebook: convert the notebook to a script (jupyter nbconvert --to script), and open the "
                  "script.")
            .arg(name);
    return {};
}

QString RecordRequest::name() const
{
    return QFileInfo(model).completeBaseName();
}

QMap<RecordField, QString> problems(const RecordRequest& request)
{
    QMap<RecordField, QString> found;
    if (request.isScript())
        addScriptProblems(request, found);
    else
        addModelProblems(request, found);
    found.removeIf([](std::pair<const RecordField&, QString&> entry) { return entry.second.isEmpty(); });
    return found;
}

QStringList RecordCommand::arguments(const QString& output) const
{
    return options + QStringList{QStringLiteral("-o"), output, QStringLiteral("--progress")} + target;
}

RecordCommand recordCommand(const RecordRequest& request, const QString& recorder)
{
    const QString model = QFileInfo(request.model).absoluteFilePath();
    const QString title = QFileInfo(request.model).fileName();
    if (!request.isScript())
        return recorderCommand(recorder, QStringList{model} + modelOptions(request), title);
    RecordCommand command;
    command.program = request.interpreter;
    command.title = title;
    command.isScript = true;
    command.workingFolder = request.workingFolder;
    command.options = QStringList{QStringLiteral("-m"), QStringLiteral("torch_headroom.record")};
    add(command.options, "--gpu", request.gpu);
    if (request.unlimited)
        command.options << QStringLiteral("--unlimited");
    add(command.options, "--steps", request.steps);
    add(command.options, "--nproc-per-node", request.processes);
    add(command.options, "--nnodes", request.nodes);
    add(command.options, "--rank", request.rank);
    bool complete = true;
    command.target = QStringList{model} + shellWords(request.scriptArguments, complete);
    return command;
}

RecordCommand recorderCommand(const QString& recorder, const QStringList& arguments, const QString& title)
{
    RecordCommand command;
    command.program = recorder;
    command.options = QStringList{QStringLiteral("record")} + arguments;
    command.title = title;
    return command;
}

RecordCommand verifyCommand(const QString& recorder, const QStringList& arguments, PlanFile kind, const QString& file)
{
    RecordCommand command;
    command.program = recorder;
    command.options = QStringList{QStringLiteral("verify")} + arguments
        + QStringList{kind == PlanFile::ops ? QStringLiteral("--ops-plan") : QStringLiteral("--policy"), file,
                      QStringLiteral("--json"), QStringLiteral("--progress")};
    command.title = tr("the plan");
    return command;
}

RecordCommand verifyScriptCommand(const QString& headroom, const QString& step, const QString& python,
                                  const QString& policy, const QString& executed)
{
    RecordCommand command;
    command.program = headroom;
    command.options = QStringList{QStringLiteral("verify"),   step,
                                  QStringLiteral("--python"), python,
                                  QStringLiteral("--policy"), policy,
                                  QStringLiteral("-o"),       executed,
                                  QStringLiteral("--json"),   QStringLiteral("--progress")};
    command.title = tr("the plan");
    return command;
}

RecordCommand scriptCommand(const QString& python, const QStringList& arguments, const QString& folder,
                            const QString& title)
{
    RecordCommand command;
    command.program = python;
    command.options = QStringList{QStringLiteral("-m"), QStringLiteral("torch_headroom.record")};
    command.target = arguments;
    command.workingFolder = folder;
    command.title = title;
    command.isScript = true;
    return command;
}

QStringList commandWords(const RecordCommand& command, const QString& output)
{
    QStringList words;
    if (!command.workingFolder.isEmpty())
        words << QStringLiteral("cd") << quoted(command.workingFolder) << QStringLiteral("&&");
    // `torch-headroom record` finds torch-headroom-record by itself.
    words << (command.isScript ? quoted(command.program) : QStringLiteral("torch-headroom"));
    for (const QString& word : command.options + QStringList{QStringLiteral("-o"), output} + command.target)
        words << quoted(word);
    return words;
}

QString foldedLine(const QStringList& words, int columns)
{
    QString text;
    qsizetype lineStart = 0;
    for (qsizetype i = 0; i < words.size(); ++i) {
        QString part = words[i];
        // An option and the value stay together.
        if (part.startsWith(QLatin1Char('-')) && i + 1 < words.size() && !words[i + 1].startsWith(QLatin1Char('-')))
            part += QLatin1Char(' ') + words[++i];
        if (!text.isEmpty() && text.size() - lineStart + 1 + part.size() > columns) {
            text += QStringLiteral(" \\\n");
            lineStart = text.size();
            text += QStringLiteral("    ");
        } else if (!text.isEmpty()) {
            text += QLatin1Char(' ');
        }
        text += part;
    }
    return text;
}

QString shellLine(const QStringList& words)
{
    QStringList safe;
    for (const QString& word : words)
        safe << quoted(word);
    return safe.join(QLatin1Char(' '));
}

QStringList shellWords(const QString& line, bool& complete)
{
    QStringList words;
    QString word;
    bool inWord = false;
    QChar quote;
    for (qsizetype i = 0; i < line.size(); ++i) {
        const QChar c = line[i];
        const bool escapes = c == QLatin1Char('\\') && quote != QLatin1Char('\'') && i + 1 < line.size();
        if (escapes) {
            word += line[++i];
            inWord = true;
        } else if (!quote.isNull()) {
            if (c == quote)
                quote = QChar();
            else
                word += c;
        } else if (c == QLatin1Char('\'') || c == QLatin1Char('"')) {
            quote = c;
            inWord = true;
        } else if (c.isSpace()) {
            if (std::exchange(inWord, false))
                words << std::exchange(word, {});
        } else {
            word += c;
            inWord = true;
        }
    }
    complete = quote.isNull();
    if (inWord)
        words << word;
    return words;
}

QVariantMap kindChoices(const RecordRequest& request)
{
    QVariantMap map = choices(request, kindMembers);
    map.insert(holdOutputKey, request.holdOutput);
    return map;
}

QVariantMap fileChoices(const RecordRequest& request)
{
    return choices(request, fileMembers);
}

void takeChoices(RecordRequest& request, const QVariantMap& choices)
{
    for (const Members& members : {kindMembers, fileMembers}) {
        for (const auto& [key, member] : members) {
            const auto found = choices.find(QString::fromLatin1(key));
            if (found != choices.end())
                request.*member = found->toString();
        }
    }
    if (choices.contains(holdOutputKey))
        request.holdOutput = choices.value(holdOutputKey).toBool();
}

} // namespace headroom
