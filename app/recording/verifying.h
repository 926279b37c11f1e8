// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/recording/recorder_run.h"
#include "core/base/bytes.h"

#include <optional>

namespace headroom {

/// The result of `torch-headroom verify`: an executed plan compared with the prediction.
struct VerifyResult
{
    bool agrees = false;
    QString reason; ///< a sentence, if execution and prediction differ
    Bytes executedPeak = 0;
    Bytes predictedPeak = 0;
    std::optional<Bytes> savedBytes; ///< saved for backward, for a plan by op
    qint64 repeatedOps = 0; ///< number of ops that ran again
    qint64 allocations = 0;
    double recomputeMs = 0; ///< time of the executed recomputation
    bool gradientsCompared = false;
    qint64 parameters = 0; ///< number of parameters with compared gradients
    QString whyNotCompared;
};

/// Reads the output of `torch-headroom verify --json`; nullopt: something else.
std::optional<VerifyResult> readVerifyResult(const QByteArray& document);

/// A run of `torch-headroom verify`. Ends with exactly one of finished(), failed() and cancelled().
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
