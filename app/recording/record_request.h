// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QMap>
#include <QString>
#include <QStringList>
#include <QVariantMap>

namespace headroom {

/// What a file is to the window, by its name alone: its content is the recorder's business.
enum class SourceKind {
    step, ///< a recorded step, or a file whose name says nothing
    exported, ///< .pt2
    torchScript, ///< .pt
    script, ///< .py
    weights, ///< .pth, .ckpt, .safetensors: no model, only its numbers
    notebook, ///< .ipynb
};
SourceKind sourceKind(const QString& path);

/// Why a file of that kind cannot be opened, and what to do instead; empty: it can.
QString whyNotOpened(SourceKind kind, const QString& path);

/// What the user asks of one recording, as typed: texts rather than numbers, so that what is wrong can be said beside
/// the field and what is right can be remembered.
struct RecordRequest
{
    SourceKind kind = SourceKind::exported;
    QString model; ///< path of the model or script

    QString gpu; ///< as --gpu takes it
    QString batch; ///< empty: the model's own
    QString sequence; ///< empty: the model's own
    QString precision; ///< float32, bfloat16, float16 or autocast; empty: as the file has it
    QString optimizer = QStringLiteral("adam");
    QString momentum; ///< of sgd; empty: none
    QString loss = QStringLiteral("sum");
    QString lifetimes = QStringLiteral("frame");
    bool holdOutput = false;
    QString settings; ///< KEY=VALUE words

    QString interpreter; ///< of a script: path of python3
    QString scriptArguments; ///< one line, quoted as for a shell
    QString workingFolder;
    QString steps; ///< empty: the script stops after its second step
    QString processes; ///< of a distributed job, on each node; empty: the script runs alone
    QString nodes; ///< empty: one
    QString rank; ///< the process that is recorded; empty: the first

    bool isScript() const noexcept { return kind == SourceKind::script; }
    QString name() const; ///< "train": of the recording
};

/// Fields that can be wrong.
enum class RecordField {
    batch,
    sequence,
    momentum,
    settings,
    interpreter,
    scriptArguments,
    workingFolder,
    steps,
    processes,
    nodes,
    rank
};

/// What is wrong, a sentence a field; empty: it can be recorded.
QMap<RecordField, QString> problems(const RecordRequest& request);

/// The program that records, with everything but where to.
struct RecordCommand
{
    QString program;
    QStringList options; ///< up to -o
    QStringList target; ///< after it: a script and its arguments
    QString workingFolder; ///< empty: this program's
    QString title; ///< "train.py", in messages
    bool isScript = false;

    QStringList arguments(const QString& output) const;
};

/// `recorder` is the path of torch-headroom-record. The request must have no problems.
RecordCommand recordCommand(const RecordRequest& request, const QString& recorder);

/// Arguments of `torch-headroom record` as a command: of a demo, or of a step that is made again.
RecordCommand recorderCommand(const QString& recorder, const QStringList& arguments, const QString& title);

/// `torch-headroom verify` with the arguments that made a step, of a plan that is in a file.
enum class PlanFile { policy, ops };
RecordCommand verifyCommand(const QString& recorder, const QStringList& arguments, PlanFile kind, const QString& file);

/// The command in the words of a shell, quoted where they must be, without what only the window needs (--progress).
QStringList commandWords(const RecordCommand& command, const QString& output);

/// Words as a line for a shell.
QString shellLine(const QStringList& words);

/// Words that are quoted already, as lines of about so many characters that a shell takes as one.
QString foldedLine(const QStringList& words, int columns);

/// A line as a shell splits it into words; false in `complete` when a quote is not closed.
QStringList shellWords(const QString& line, bool& complete);

/// What is remembered of a request: choices that fit any file of the kind, and those of this one file.
QVariantMap kindChoices(const RecordRequest& request);
QVariantMap fileChoices(const RecordRequest& request);
void takeChoices(RecordRequest& request, const QVariantMap& choices);

} // namespace headroom
