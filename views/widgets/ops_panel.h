// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QString>
#include <QWidget>

#include <vector>

class QLabel;
class QPushButton;

namespace headroom {

/// A plan by op as text.
struct OpsFacts
{
    /// Ops of the same name that change to the same decision.
    struct Changed
    {
        QString op; ///< "48 × gelu"
        QString decision; ///< "recomputed"
        QString bytes; ///< "−384 MiB"
        bool again = false;
    };
    QString problem; ///< a sentence: why there is no plan by op; empty: no problem, or not computed yet
    QString summary; ///< fraction and bytes, rich text
    QString changedTitle; ///< "New at this step of the frontier: 12 ops"
    std::vector<Changed> changed; ///< most bytes first
    QString moreChanged; ///< "and 3 kinds more"; empty: no more
    QString compileLines; ///< Python code that sets the plan for torch.compile; empty: none
    QString policy; ///< a sentence about the plan as save lists
    bool policyReady = false;
};

/// The part of the inspector for plans by op: the ops with a changed decision at this step of the frontier, and how to
/// apply the plan in PyTorch.
class OpsPanel : public QWidget
{
    Q_OBJECT
public:
    explicit OpsPanel(QWidget* parent = nullptr);

    void setFacts(const OpsFacts& facts);

Q_SIGNALS:
    void modulesWanted(); ///< the button beside the problem was clicked
    void tableWanted(); ///< request to show all ops with a changed decision in the table of ops
    void copyWanted();
    void exportWanted();

private:
    class ChangedOpList;

    QLabel* addText(const char* name, bool second);

    QLabel* problem_;
    QPushButton* modules_;
    QWidget* plan_; ///< everything but the problem
    QLabel* summary_;
    QLabel* changedTitle_;
    ChangedOpList* changed_;
    QPushButton* table_;
    QLabel* compileTitle_;
    QLabel* compile_;
    QPushButton* copy_;
    QLabel* policyTitle_;
    QLabel* policy_;
    QPushButton* export_;
};

} // namespace headroom
