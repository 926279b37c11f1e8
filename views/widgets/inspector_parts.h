// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/joint/ops_request.h"
#include "core/timeline/timeline.h"
#include "views/plot/tradeoff_curve.h"

#include <QRadioButton>
#include <QString>
#include <QWidget>

#include <optional>
#include <vector>

class QComboBox;
class QFormLayout;
class QLabel;
class QProgressBar;
class QPushButton;

namespace headroom {

/// A radio button for an option of a module: a title, and below the kept bytes (left) and the cost (right). The
/// checked button is drawn in the accent colour with a filled circle.
class OptionButton : public QRadioButton
{
    Q_OBJECT
public:
    explicit OptionButton(const QString& title, QWidget* parent = nullptr);

    void setDetails(const QString& kept, const QString& cost);

    QSize sizeHint() const override;
    QSize minimumSizeHint() const override;

protected:
    void paintEvent(QPaintEvent* event) override;
    bool hitButton(const QPoint& position) const override;

private:
    QString kept_;
    QString cost_;
};

/// Memory at the peak by category, as recorded and under the plan: two bars on the same scale, and a table. Categories
/// without bytes in both are left out.
class PeakTable : public QWidget
{
    Q_OBJECT
public:
    explicit PeakTable(QWidget* parent = nullptr);

    void setPeaks(const CategoryBytes& recorded, const std::optional<CategoryBytes>& planned);

    QSize sizeHint() const override;
    QSize minimumSizeHint() const override { return {200, sizeHint().height()}; }

protected:
    void paintEvent(QPaintEvent* event) override;

private:
    std::vector<Category> shownCategories() const; ///< top of the stack first
    void paintBar(QPainter& painter, double top, const CategoryBytes& bytes, bool pale) const;

    CategoryBytes recorded_{};
    std::optional<CategoryBytes> planned_;
};

/// The break points of a module's trade-off curve as lines of text; the chosen point has a dot in the accent colour.
class CurveTable : public QWidget
{
    Q_OBJECT
public:
    explicit CurveTable(QWidget* parent = nullptr);

    void setPoints(std::vector<TradeOffPoint> points, int chosen); ///< `chosen`: index of the plan's choice; -1: none

    QSize sizeHint() const override;
    QSize minimumSizeHint() const override { return {160, sizeHint().height()}; }

protected:
    void paintEvent(QPaintEvent* event) override;

private:
    std::vector<TradeOffPoint> points_;
    int chosen_ = -1;
};

/// The row for verifying a plan: a button that runs the plan, the progress, and the verdict.
class VerifyRow : public QWidget
{
    Q_OBJECT
public:
    enum class Verdict { none, kept, broken };

    explicit VerifyRow(QWidget* parent = nullptr);

    void setOffer(bool possible, const QString& why); ///< `why`: the obstacle, or what the button does
    void setProgress(double share, const QString& stage); ///< share < 0: not known
    void setVerdict(Verdict verdict, const QString& text); ///< none: shows only the button

    QPushButton* button() const noexcept { return button_; }
    QString text() const;
    Verdict verdict() const noexcept { return verdict_; }

Q_SIGNALS:
    void wanted();
    void cancelWanted();

private:
    QPushButton* button_;
    QProgressBar* progress_;
    QLabel* text_;
    Verdict verdict_ = Verdict::none;
    bool running_ = false;
};

/// The cost of running an op again, for plans by op.
enum class OpCost {
    time, ///< the op times of the step
    flops,
    timesOfFile, ///< op times from a file of measurements
};

/// Combo boxes for the solver and the cost of plans by op. Shows the given choice; a change by the user emits a signal.
class SolverChoice : public QWidget
{
    Q_OBJECT
public:
    explicit SolverChoice(QWidget* parent = nullptr);

    /// `file`: name of the file of measured times; empty: none.
    void setChoice(OpsSolver solver, OpCost cost, const QString& file);

    QComboBox* solvers() const noexcept { return solver_; }
    QComboBox* costs() const noexcept { return cost_; }

Q_SIGNALS:
    void solverWanted(headroom::OpsSolver solver);
    void costWanted(headroom::OpCost cost);

private:
    QComboBox* addRow(const char* name, const QString& label, const QString& tip);

    QFormLayout* rows_;
    QComboBox* solver_;
    QComboBox* cost_;
};

} // namespace headroom
