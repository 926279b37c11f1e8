// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/plan/plan.h"
#include "core/timeline/timeline.h"
#include "views/widgets/curve_table.h"

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
class OptionButton;
class PeakTable;
class SolverChoice;
class VerifyRow;

/// What the inspector says of the selected module: words and numbers, ready to be shown.
struct ModuleFacts
{
    struct Option
    {
        QString kept; ///< "141 MiB kept"
        QString cost; ///< "+1.69 ms"
    };
    QString name; ///< "layers.42"
    QString fqn; ///< the whole path, as a tool tip
    QString description; ///< "TransformerBlock, 64 MiB of weights"
    bool treatable = true; ///< false: there is nothing to choose in this mode
    QString whyNot; ///< why it cannot be checkpointed; empty: it can
    std::optional<Pin> pin; ///< nullopt: the plan decides
    Option decided; ///< what the plan does now
    Option keepAll;
    Option recompute;
    QString curveTitle;
    std::vector<TradeOffPoint> curve; ///< some points, most kept first
    int chosenPoint = -1; ///< of the curve, by the plan; -1: none of them
    QString reason; ///< one sentence in rich text that says why
};

/// Why no plan fits, and what would help.
struct InfeasibleFacts
{
    QString headline; ///< "No plan fits 20.0 GiB"
    QString reason; ///< where it is tightest, in rich text
    QString advice; ///< what would help
    Bytes leastBudget = 0; ///< 0: not known
};

/// The right side of the window: the selected module with the ways to treat it, why the plan chose what it chose, the
/// solver's answer, and what the device holds at the peak. Shows values that it is given; knows no plan.
class Inspector : public QScrollArea
{
    Q_OBJECT
public:
    explicit Inspector(QWidget* parent = nullptr);

    void setModule(const ModuleFacts& facts);
    void setNoModule(const QString& name, const QString& description); ///< nothing is selected: the step as a whole
    void setInfeasible(const std::optional<InfeasibleFacts>& facts);
    void setSolver(const QString& line, bool fits, int pins);
    void setWorldSize(int worldSize); ///< GPUs that FSDP shards over; emits nothing
    void setOfJob(bool is); ///< the step is of one rank: it holds its share already, and nothing of it is divided again
    void setPeaks(const CategoryBytes& recorded, const std::optional<CategoryBytes>& planned);

    void setByOps(bool ops); ///< shows what is about ops, and hides what is about modules

    OpsPanel* opsPanel() const noexcept { return ops_; }
    SolverChoice* solverChoice() const noexcept { return choice_; }
    VerifyRow* verifyRow() const noexcept { return verify_; }

    QSize sizeHint() const override;
    QSize minimumSizeHint() const override; ///< as wide as what does not give way: it scrolls one way only

Q_SIGNALS:
    void pinWanted(std::optional<headroom::Pin> pin);
    void pinsCleared();
    void leastBudgetWanted();
    void worldSizeWanted(int worldSize);

private:
    void makeHead(QVBoxLayout* column);
    void makeOptions(QVBoxLayout* column);
    void makeInfeasible(QVBoxLayout* column);
    void makeSolver(QVBoxLayout* column);
    QLayout* makeSharding();
    void showOptions(bool shown);

    ElidedLabel* name_;
    QLabel* description_;
    QWidget* infeasible_;
    QLabel* infeasibleHeadline_;
    QLabel* infeasibleReason_;
    QLabel* infeasibleAdvice_;
    QPushButton* leastBudget_;
    QWidget* options_;
    OptionButton* decided_;
    OptionButton* keepAll_;
    OptionButton* recompute_;
    QLabel* curveTitle_;
    CurveTable* curve_;
    QLabel* whyNot_;
    QLabel* reason_;
    QLabel* solver_;
    SolverChoice* choice_; ///< of ops
    QLabel* pins_;
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
