// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/recording/verifying.h"
#include "core/base/error.h"

#include <QTemporaryDir>

#include <memory>

class QAction;

namespace headroom {

class Session;
class VerifyRow;

/// Runs the plan that is shown, to see whether it keeps its word. The verdict is about one plan: it goes when the
/// question changes, and a run for another plan is ended.
class VerifyDesk : public QObject
{
    Q_OBJECT
public:
    VerifyDesk(Session& session, VerifyRow& row, QAction& action, QString recorder, QObject* parent = nullptr);

    void verify();
    bool running() const noexcept { return verifying_.running(); }

private:
    void forget(); ///< what was found for another plan
    void showOffer();
    Status writePlan(const QString& file) const;
    QString whyNot() const; ///< empty: it can be verified

    Session& session_;
    VerifyRow& row_;
    QAction& action_;
    QString recorder_;
    std::unique_ptr<QTemporaryDir> place_; ///< of the policy
    Verifying verifying_;
};

/// The verdict in a sentence or two.
QString verdictText(const VerifyResult& result);

} // namespace headroom
