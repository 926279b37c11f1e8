// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/recording/verifying.h"

#include "core/base/json_reader.h"

namespace headroom {
namespace {

constexpr qsizetype longestDocument = 1 << 20;

VerifyResult resultIn(const json::Json& document)
{
    const auto text = [](const json::Json& value) { return QString::fromStdString(json::string(value)); };
    const auto count = [](const json::Json& object, const char* key) {
        return json::atOr(object, key, json::integer, std::int64_t{0});
    };
    VerifyResult result;
    result.executedPeak = json::at(document, "executed_peak_bytes", json::bytes);
    result.predictedPeak = json::at(document, "predicted_peak_bytes", json::bytes);
    result.agrees = json::at(document, "agrees", json::boolean);
    result.reason = json::atOr(document, "reason", text, QString());
    if (const json::Json* saved = json::find(document, "executed_saved_bytes"))
        result.savedBytes = json::bytes(*saved);
    result.repeatedOps = count(document, "repeated_ops");
    result.allocations = count(document, "allocations");
    result.recomputeMs = json::atOr(document, "executed_recompute_ms", json::number, 0.0);
    if (const json::Json* gradients = json::find(document, "gradients")) {
        result.gradientsCompared = json::atOr(*gradients, "compared", json::boolean, false);
        result.parameters = count(*gradients, "parameters");
        result.whyNotCompared = json::atOr(*gradients, "reason", text, QString());
    }
    return result;
}

} // namespace

std::optional<VerifyResult> readVerifyResult(const QByteArray& document)
{
    const auto result = json::read(document.toStdString(), "verify", resultIn);
    return result ? std::optional(*result) : std::nullopt;
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

/// A plan that does not agree with the prediction also gives a document, with an exit code other than 0.
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
