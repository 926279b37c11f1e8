// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/recording/recorder_run.h"

#include <QTemporaryDir>

#include <memory>

namespace headroom {

/// A run that makes a step file. Ends with one of finished(), failed() and cancelled(). The step file is
/// written in a temporary folder and moved to the destination when complete: a cancelled or failed recording leaves
/// nothing. No recording replaces another recording: if the destination is taken, the next free name is used.
class Recording : public RecorderRun
{
    Q_OBJECT
public:
    explicit Recording(QObject* parent = nullptr);
    ~Recording() override;

    void start(const RecordCommand& command, const QString& destination);
    /// The path that a recording to `destination` gets: "train.hrs", or "train-2.hrs" if that is taken.
    static QString freePath(const QString& destination);

Q_SIGNALS:
    /// `path`: the destination, or the next free name. `remark`: a problem after the step was complete, such as an
    /// exception of the script; empty: none.
    void finished(const QString& path, const QString& remark);

protected:
    void exited(int exitCode) override;
    void takeOutput(const QByteArray& bytes) override;
    void endOfOutput(QStringList& shown) override;
    void cleanUp() override;

private:
    void keepResult(const QString& remark);

    QString destination_;
    OutputLines prints_;
    std::unique_ptr<QTemporaryDir> folder_;
};

} // namespace headroom
