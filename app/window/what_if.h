// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/recording/recording.h"
#include "core/trace/step_trace.h"

#include <QMap>
#include <QTemporaryDir>
#include <QTimer>

#include <memory>
#include <vector>

namespace headroom {

class RecordController;
class Session;
class SizeFields;

/// Records the open step again in the background, with the same options but at other sizes (from the header's fields)
/// or for another GPU. The sizes of a script are arguments of its command (scriptSizes()). The latest request wins. The
/// open step stays until the recording is complete. The recordings are deleted when the window closes.
class WhatIf : public QObject
{
    Q_OBJECT
public:
    /// `records` asks for consent before a script's Python is started.
    WhatIf(Session& session, SizeFields& fields, RecordController& records, QString folder, QObject* parent = nullptr);

    inline static const QString card = QStringLiteral("gpu");

    void want(const QString& what, const QString& value); ///< requests another value of a dimension, or of `card`
    void cancel(); ///< drops the request
    bool running() const noexcept { return recording_.running() || typing_.isActive(); }

Q_SIGNALS:
    /// `sizes` is "batch 64"; `card` is empty for the same GPU.
    void recorded(const QString& path, const QString& sizes, const QString& card);
    void failed(const QString& reason);

private:
    void begin();
    void showStep(); ///< shows the open step's sizes in the fields
    void showProgress(double share);
    void start();
    void record(const RecordCommand& command);
    void recordScript();
    bool wantsTheSame() const; ///< the step already has these sizes
    QString sizesText() const;

    Session& session_;
    SizeFields& fields_;
    RecordController& records_;
    QString folder_;
    std::unique_ptr<QTemporaryDir> place_; ///< folder of the recordings
    Recording recording_;
    QTimer typing_; ///< runs while the user is typing
    QMap<QString, QString> wanted_; ///< requested values by dimension, or `card`
    bool again_ = false; ///< the request changed while the last recording was being ended
};

/// The arguments of `torch-headroom record` with a single option set to another value.
QStringList withOption(QStringList arguments, const QString& option, const QString& value);

/// The sizes at which the step can be recorded again: a model's batch and sequence, or scriptSizes(). Empty: no command
/// is known.
std::vector<StepInfo::Dimension> sizesOf(const StepTrace& trace);

/// The whole numbers among the arguments of the script that the step was recorded from: `--batch-size 64`,
/// `--batch-size=64` or `batch_size=64`. Arguments that name a batch come first, then those that name a sequence; there
/// are three at most. An argument that is given twice is left out.
std::vector<StepInfo::Dimension> scriptSizes(const StepTrace& trace);

/// Whether an argument of a script names a batch: "--batch-size", "train.bs".
bool isBatchName(const std::string& name);

/// The arguments of `torch-headroom record` with another value of a script's argument, which scriptSizes() named.
QStringList withScriptSize(const QStringList& arguments, const QString& name, const QString& value);

} // namespace headroom
