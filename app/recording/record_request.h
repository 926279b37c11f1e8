// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QMap>
#include <QString>
#include <QStringList>
#include <QVariantMap>

namespace headroom {

/// The kind of a file, by the suffix alone.
enum class SourceKind {
    step, ///< a recorded step, or any other suffix
    exported, ///< .pt2
    torchScript, ///< .pt
    script, ///< .py
    weights, ///< .pth, .ckpt, .safetensors: weights without a model
    notebook, ///< .ipynb
};
SourceKind sourceKind(const QString& path);

/// Why a file of that kind cannot be opened, and what to do instead; empty: can be opened.
QString whyNotOpened(SourceKind kind, const QString& path);

/// The options of a recording as typed by the user. All are texts, so that problems can be shown beside the fields
/// and values can be stored.
struct RecordRequest
{
    SourceKind kind = SourceKind::exported;
    QString model; ///< path of the model or script

    QString gpu; ///< value of --gpu
    QString batch; ///< empty: the model's own
    QString sequence; ///< empty: the model's own
    QString precision; ///< float32, bfloat16, float16 or autocast; empty: the file's own
    QString optimizer = QStringLiteral("adam");
    QString momentum; ///< momentum of sgd; empty: none
    QString loss = QStringLiteral("sum");
    QString lifetimes = QStringLiteral("frame");
    bool holdOutput = false;
    QString settings; ///< KEY=VALUE words

    QString interpreter; ///< path of python3, for a script
    QString scriptArguments; ///< a line, quoted as for a shell
    QString workingFolder;
    QString steps; ///< empty: the script stops after the second step
    QString processes; ///< of a distributed job, on each node; empty: the script runs alone
    QString nodes; ///< empty: 1
    QString rank; ///< the process that is recorded; empty: the first
    bool unlimited = false; ///< the step may take more memory than the card has

    bool isScript() const noexcept { return kind == SourceKind::script; }
    QString name() const; ///< name of the recording: "train"
};

/// Fields that can have a problem.
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

/// A sentence for each wrong field; empty: the request can be recorded.
QMap<RecordField, QString> problems(const RecordRequest& request);

/// The command that records, without the path of the output.
struct RecordCommand
{
    QString program;
    QStringList options; ///< up to -o
    QStringList target; ///< after -o: a script and the script's arguments
    QString workingFolder; ///< empty: that of this program
    QString title; ///< "train.py", in messages
    bool isScript = false;

    QStringList arguments(const QString& output) const;
};

/// `recorder` is the path of torch-headroom-record. The request must have no problems.
RecordCommand recordCommand(const RecordRequest& request, const QString& recorder);

/// A command from arguments of `torch-headroom record`: of a demo, or of a step that is recorded again.
RecordCommand recorderCommand(const QString& recorder, const QStringList& arguments, const QString& title);

/// `torch-headroom verify` with the arguments that recorded a step, and the plan in `file`.
enum class PlanFile { policy, ops };
RecordCommand verifyCommand(const QString& recorder, const QStringList& arguments, PlanFile kind, const QString& file);

/// `torch-headroom verify` for the step of a script in `step`, under the policy in `policy`; the script's step is
/// written to `executed`. `headroom` is the path of torch-headroom.
RecordCommand verifyScriptCommand(const QString& headroom, const QString& step, const QString& python,
                                  const QString& policy, const QString& executed);

/// The recording of a script by `python`, from arguments of `torch-headroom record`, in the folder of the script's run.
RecordCommand scriptCommand(const QString& python, const QStringList& arguments, const QString& folder,
                            const QString& title);

/// The command as words for a shell, quoted where necessary, without options that only the window needs (--progress).
QStringList commandWords(const RecordCommand& command, const QString& output);

/// Quotes words and joins the words to a line for a shell.
QString shellLine(const QStringList& words);

/// Joins quoted words to lines of about `columns` characters, with backslashes so that a shell reads a single line.
QString foldedLine(const QStringList& words, int columns);

/// Splits a line into words as a shell does. `complete` is false if a quote is not closed.
QStringList shellWords(const QString& line, bool& complete);

/// Options of a request that are stored: for all files of the kind, and for this file. takeChoices() restores
/// the options.
QVariantMap kindChoices(const RecordRequest& request);
QVariantMap fileChoices(const RecordRequest& request);
void takeChoices(RecordRequest& request, const QVariantMap& choices);

} // namespace headroom
