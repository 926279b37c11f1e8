// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/recording/verifying.h"
#include "core/base/error.h"
#include "core/policy/plan_answer.h"

#include <QTemporaryDir>

#include <memory>

class QAction;

namespace headroom {

class RecordController;
class Session;
class VerifyRow;

/// Runs the shown plan and compares the run with the prediction. The verdict is of a single plan: when the request
/// changes, or a better plan is found for the same request, the verdict is cleared, and the run is ended.
class VerifyController : public QObject
{
    Q_OBJECT
public:
    /// `records` asks for consent before a script's Python is started.
    VerifyController(Session& session, VerifyRow& row, QAction& action, RecordController& records,
                     QObject* parent = nullptr);

    void verify();
    bool running() const noexcept { return verifying_.running(); }

private:
    void forget(); ///< clears the verdict of another plan
    void takeAnswer(); ///< the answer may have another plan than the verdict
    void showOffer();
    void verifyModel();
    void verifyScript();
    bool made(const Status& written); ///< shows why the plan's file could not be written
    QString whyNot() const; ///< empty: the plan can be verified

    Session& session_;
    VerifyRow& row_;
    QAction& action_;
    RecordController& records_;
    int planNumber_ = 0; ///< another plan has another number
    PlanAnswerPtr of_; ///< the answer with the plan of the run and of the verdict; null: neither is there
    std::unique_ptr<QTemporaryDir> place_; ///< folder of the policy's file
    Verifying verifying_;
};

/// The verdict in a sentence or two.
QString verdictText(const VerifyResult& result);

} // namespace headroom
