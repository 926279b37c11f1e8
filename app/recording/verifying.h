// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/recording/recorder_run.h"
#include "core/base/bytes.h"

#include <optional>

namespace headroom {

/// What `torch-headroom verify` found: a plan that was run, beside what was promised of it.
struct VerifyResult
{
    bool agrees = false;
    QString reason; ///< one sentence, when it does not
    Bytes executedPeak = 0;
    Bytes predictedPeak = 0;
    std::optional<Bytes> savedBytes; ///< held for backward, of a plan of ops
    qint64 repeatedOps = 0; ///< that ran again by it
    qint64 allocations = 0;
    double recomputeMs = 0; ///< executed
    bool gradientsCompared = false;
    qint64 parameters = 0; ///< whose gradients were compared
    QString whyNotCompared;
};

/// The document that `torch-headroom verify --json` prints; nullopt: it is something else.
std::optional<VerifyResult> readVerifyResult(const QByteArray& document);

/// A run of `torch-headroom verify`. Exactly one of finished, failed and cancelled comes at the end.
class Verifying : public RecorderRun
{
    Q_OBJECT
public:
    explicit Verifying(QObject* parent = nullptr);

    void start(const RecordCommand& command);

Q_SIGNALS:
    void finished(const headroom::VerifyResult& result);

protected:
    void exited(int exitCode) override;
    void takeOutput(const QByteArray& bytes) override;
    void endOfOutput(QStringList&) override {}

private:
    QByteArray document_;
};

} // namespace headroom
