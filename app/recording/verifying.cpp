// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/recording/verifying.h"

#include <QJsonDocument>
#include <QJsonObject>

namespace headroom {
namespace {

constexpr qsizetype longestDocument = 1 << 20;

} // namespace

std::optional<VerifyResult> readVerifyResult(const QByteArray& document)
{
    const QJsonObject json = QJsonDocument::fromJson(document).object();
    const auto bytes = [](const QJsonValue& value) -> Bytes { return value.toInteger(-1); };
    VerifyResult result;
    result.executedPeak = bytes(json.value(QLatin1String("executed_peak_bytes")));
    result.predictedPeak = bytes(json.value(QLatin1String("predicted_peak_bytes")));
    if (!json.value(QLatin1String("agrees")).isBool() || result.executedPeak < 0 || result.predictedPeak < 0)
        return std::nullopt;
    result.agrees = json.value(QLatin1String("agrees")).toBool();
    result.reason = json.value(QLatin1String("reason")).toString();
    if (const QJsonValue saved = json.value(QLatin1String("executed_saved_bytes")); !saved.isUndefined())
        result.savedBytes = bytes(saved);
    result.repeatedOps = json.value(QLatin1String("repeated_ops")).toInteger();
    result.allocations = json.value(QLatin1String("allocations")).toInteger();
    result.recomputeMs = json.value(QLatin1String("executed_recompute_ms")).toDouble();
    const QJsonObject gradients = json.value(QLatin1String("gradients")).toObject();
    result.gradientsCompared = gradients.value(QLatin1String("compared")).toBool();
    result.parameters = gradients.value(QLatin1String("parameters")).toInteger();
    result.whyNotCompared = gradients.value(QLatin1String("reason")).toString();
    return result;
}

Verifying::Verifying(QObject* parent)
    : RecorderRun(parent)
{
}

void Verifying::start(const RecordCommand& command)
{
    document_.clear();
    begin(command);
    launch(command.options);
}

void Verifying::takeOutput(const QByteArray& bytes)
{
    document_ += bytes.left(longestDocument - document_.size());
}

/// The exit code says whether the plan kept its word, and so does the document, in more words.
void Verifying::exited(int exitCode)
{
    if (const auto result = readVerifyResult(document_))
        Q_EMIT finished(*result);
    else if (exitCode == 0)
        fail(tr("The recorder ended without an answer."));
    else
        fail(reasonOfExit(exitCode));
}

} // namespace headroom
