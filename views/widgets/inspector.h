// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/plan/plan.h"
#include "core/timeline/timeline.h"
#include "views/widgets/inspector_parts.h"

#include <QScrollArea>
#include <QString>

#include <optional>
#include <vector>

class QLabel;
class QLayout;
class QPushButton;
class QSpinBox;
class QVBoxLayout;

namespace headroom {

class ElidedLabel;
class OpsPanel;
class WrappedLabel;

/// The inspector's text about the selected module.
struct ModuleFacts
{
    struct Option
    {
        QString kept; ///< "141 MiB kept"
        QString cost; ///< "+1.69 ms"
    };
    QString name; ///< "layers.42"
    QString fqn; ///< the fqn, as tool tip
    QString description; ///< "TransformerBlock, 64 MiB of weights"
    QString
        line; ///< line of source code that makes most of the module's memory: "model.py:57 Block.forward"; may be empty
    bool treatable = true; ///< false: the user cannot choose anything in this mode
    QString whyNot; ///< why the module cannot be checkpointed; empty: no reason
    std::optional<Pin> pin; ///< nullopt: the plan decides
    Option decided; ///< the current plan's choice
    Option keepAll;
    Option recompute;
    std::optional<Option> offload; ///< nullopt: plans of the step have no offload
    QString whyNoOffload; ///< why this module cannot be offloaded; empty: no reason
    QString curveTitle;
    std::vector<TradeOffPoint> curve; ///< some points, by descending `kept`
    int chosenPoint = -1; ///< index in `curve` of the plan's choice; -1: none
    QString reason; ///< a sentence in rich text: why the plan chose this
};

/// Why no plan fits, and what would help.
struct InfeasibleFacts
{
    QString headline; ///< "No plan fits 20.0 GiB"
    QString reason; ///< where memory exceeds the budget, in rich text
    QString advice; ///< what would help
    Bytes leastBudget = 0; ///< 0: not known
};

/// The right side of the window: the selected module with its options and the reason for the plan's choice, the
/// solver's status, and memory at the peak by category. The inspector shows given values and computes nothing.
class Inspector : public QScrollArea
{
    Q_OBJECT
public:
    explicit Inspector(QWidget* parent = nullptr);

    void setModule(const ModuleFacts& facts);
    void setNoModule(const QString& name, const QString& description); ///< no selection: shows the step as a whole
    void setInfeasible(const std::optional<InfeasibleFacts>& facts);
    void setSolver(const QString& line, bool fits, int pins);
    void setWorldSize(int worldSize); ///< number of GPUs that FSDP shards over; emits no signal
    /// true: the step is of a rank of a job and holds that rank's share, which is not divided again.
    void setOfJob(bool is);
    void setShardable(const QString& whyNot); ///< `whyNot`: why no number of GPUs changes anything; empty: it does
    void setPeaks(const CategoryBytes& recorded, const std::optional<CategoryBytes>& planned);

    void setByOps(bool ops); ///< true: shows the parts for plans by op and hides the parts for modules

    OpsPanel* opsPanel() const noexcept { return ops_; }
    SolverChoice* solverChoice() const noexcept { return choice_; }
    VerifyRow* verifyRow() const noexcept { return verify_; }

    QSize sizeHint() const override;
    QSize minimumSizeHint() const override; ///< wide enough to scroll only vertically

Q_SIGNALS:
    void pinWanted(std::optional<headroom::Pin> pin);
    void pinsCleared();
    void leastBudgetWanted();
    void worldSizeWanted(int worldSize);
    void lineWanted(); ///< the module's line was clicked

private:
    void makeHead(QVBoxLayout* column);
    void makeOptions(QVBoxLayout* column);
    void makeInfeasible(QVBoxLayout* column);
    void makeSolver(QVBoxLayout* column);
    QLayout* makeSharding();

    ElidedLabel* name_;
    WrappedLabel* description_;
    QLabel* line_;
    QWidget* infeasible_;
    WrappedLabel* infeasibleHeadline_;
    WrappedLabel* infeasibleReason_;
    WrappedLabel* infeasibleAdvice_;
    QPushButton* leastBudget_;
    QWidget* options_;
    OptionButton* decided_;
    OptionButton* keepAll_;
    OptionButton* recompute_;
    OptionButton* offload_;
    QLabel* curveTitle_;
    CurveTable* curve_;
    WrappedLabel* whyNot_;
    WrappedLabel* reason_;
    WrappedLabel* solver_;
    SolverChoice* choice_; ///< for plans by op
    WrappedLabel* pins_;
    QPushButton* clearPins_;
    VerifyRow* verify_;
    OpsPanel* ops_;
    QWidget* sharding_;
    bool byOps_ = false;
    bool ofJob_ = false;
    QSpinBox* worldSize_;
    PeakTable* peaks_;
    QLabel* peakTitle_;
};

} // namespace headroom
