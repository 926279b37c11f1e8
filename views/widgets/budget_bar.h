// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/bytes.h"
#include "core/policy/step_planner.h"
#include "views/plot/axis_map.h"
#include "views/plot/budget_steps.h"
#include "views/plot/bytes_control.h"
#include "views/plot/kept_picture.h"
#include "views/theme/theme.h"

#include <QTimer>
#include <QWidget>

#include <optional>
#include <vector>

class QButtonGroup;
class QCheckBox;
class QHBoxLayout;
class QLabel;
class QLineEdit;
class QPushButton;

namespace headroom {

/// A figure with a caption: a large number in tabular digits, and a small grey text after. The width is constant
/// while the number changes.
class ResultFigure : public QWidget
{
    Q_OBJECT
public:
    enum class Mood { normal, old, danger }; ///< old: of the previous plan, while a new plan is solved

    explicit ResultFigure(const QString& caption, QWidget* parent = nullptr);

    void setValue(const QString& number, const QString& rest);
    void setMood(Mood mood);
    QString number() const { return number_; }
    QString rest() const { return rest_; }

    QSize sizeHint() const override;
    QSize minimumSizeHint() const override { return sizeHint(); }

protected:
    void paintEvent(QPaintEvent* event) override;

private:
    QString caption_;
    QString number_;
    QString rest_;
    Mood mood_ = Mood::normal;
    int widest_ = 0;
};

/// Edits the budget as a large number with a unit. Accepts `12.5 GiB`, `800 MiB`, or a number in the shown unit. The
/// keys Up and Down step. Invalid text stays, in red, with the reason as tool tip.
class BudgetEdit : public QWidget
{
    Q_OBJECT
public:
    explicit BudgetEdit(QWidget* parent = nullptr);

    void setValue(Bytes value); ///< ignored while the user types
    void setUnitOf(Bytes largest); ///< sets the unit to that of the bar's largest value
    void setDanger(bool danger); ///< no plan fits the budget
    QLineEdit* line() const noexcept { return line_; }
    QString problem() const { return problem_; } ///< empty: the text is valid

Q_SIGNALS:
    void entered(headroom::Bytes value);
    void stepped(int steps);

protected:
    bool eventFilter(QObject* watched, QEvent* event) override;
    void changeEvent(QEvent* event) override;

private:
    void show();
    void setProblem(const QString& problem); ///< empty: none
    void read();
    void fitWidth();
    void applyStyle();

    QLineEdit* line_;
    QLabel* unit_;
    Bytes value_ = 0;
    ByteUnit shownIn_;
    bool danger_ = false;
    QString problem_;
};

/// The choice whether saved tensors may go to host memory: a check box, and the most pinned host memory. An empty field
/// is no limit. Invalid text stays, in red, with the reason as tool tip.
class OffloadRow : public QWidget
{
    Q_OBJECT
public:
    explicit OffloadRow(QWidget* parent = nullptr);

    void setChoice(bool allowed, Bytes hostMemory); ///< 0: any; emits nothing
    void setPossible(const QString& whyNot); ///< `whyNot`: a sentence; empty: offload is possible
    QCheckBox* box() const noexcept { return box_; }
    QLineEdit* field() const noexcept { return field_; }

Q_SIGNALS:
    void wanted(bool allowed, headroom::Bytes hostMemory);

private:
    void read();
    void show();
    void setProblem(const QString& problem);

    QCheckBox* box_;
    QLineEdit* field_;
    Bytes hostMemory_ = 0;
};

/// The slider of the budget over the cost curve: hatched where no plan fits, plans for cards and the recorded peak as
/// stops, ticks below. A click on the label of a stop sets the stop's budget.
class BudgetScale : public BytesControl
{
    Q_OBJECT
public:
    explicit BudgetScale(QWidget* parent = nullptr);

    void setRange(Bytes least, Bytes recordedPeak, Bytes axisMin, Bytes axisMax);
    void setFrontier(std::vector<FrontierPoint> frontier, std::vector<FrontierPoint> recompute = {}); ///< BudgetBar's
    void setStepMs(double ms) { stepMs_ = ms; } ///< step time without recomputation, for the percentage in the tool tip
    void setCards(std::vector<CardStop> cards, std::vector<Bytes> failing); ///< as BudgetBar::setCards()
    void setCurveHeight(int height); ///< in pixels; larger in a large window
    static constexpr int leastCurveHeight = 26;
    Bytes least() const noexcept { return least_; }
    const AxisRange axis() const noexcept { return axis_; }
    double knobX() const; ///< x of the value, in own pixels

    QSize sizeHint() const override;
    QSize minimumSizeHint() const override;

protected:
    bool event(QEvent* event) override;
    void paintEvent(QPaintEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void mouseMoveEvent(QMouseEvent* event) override;
    void mouseReleaseEvent(QMouseEvent* event) override;
    void valueMoved() override { update(); }

private:
    struct StopLabel
    {
        Bytes bytes = 0;
        double x = 0;
        QString text;
        QRectF box; ///< empty: no room for the text
        bool card = true;
    };
    AxisMap map() const;
    double trackY() const;
    void updateStops();
    std::vector<StopLabel> stopLabels(const QFontMetricsF& metrics) const;
    std::optional<StopLabel> labelAt(QPointF position) const;
    void placeLabels(std::vector<StopLabel>& labels, const QFontMetricsF& metrics) const;
    void paintScenery(QPainter& painter, const Theme& theme) const;
    void paintHatch(QPainter& painter, const Theme& theme) const;
    void paintCurve(QPainter& painter, const Theme& theme) const;
    void paintStops(QPainter& painter, const Theme& theme) const;
    void paintTicks(QPainter& painter, const Theme& theme) const;
    void paintTrack(QPainter& painter, const Theme& theme) const;

    bool fails(const FrontierPoint& point) const; ///< the plan does not run on the GPU

    std::vector<CardStop> cards_;
    std::vector<Bytes> failing_; ///< ascending
    Bytes least_ = 0;
    Bytes recordedPeak_ = 0;
    AxisRange axis_;
    std::vector<FrontierPoint> frontier_;
    std::vector<FrontierPoint> recompute_;
    double stepMs_ = 0;
    double grabbedAt_ = 0;
    int curveHeight_ = leastCurveHeight;
    KeptPicture scenery_; ///< everything but the track and the knob
};

/// The budget and its cost: value, choice of offload, slider over the cost curve, planned peak, added time, number of
/// recomputed modules, and bytes that go to the host. Budgets below the least feasible budget are hatched; plans for
/// GPUs are stops.
class BudgetBar : public QWidget
{
    Q_OBJECT
public:
    explicit BudgetBar(QWidget* parent = nullptr);

    /// `least` is the smallest feasible budget (0: not known yet). From `recordedPeak` on nothing is recomputed.
    void setRange(Bytes least, Bytes recordedPeak, Bytes axisMin, Bytes axisMax);
    /// Stops at which a plan runs on a card, and the peaks of plans of the frontier that do not run there, ascending.
    void setCards(std::vector<CardStop> cards, std::vector<Bytes> failing = {});
    void setWindowHeight(int height); ///< the curve's height is a share of the window's
    /// Peaks ascend; empty: not known yet. `recompute` is the frontier without offload if `frontier` is with offload,
    /// drawn as a second curve.
    void setFrontier(std::vector<FrontierPoint> frontier, std::vector<FrontierPoint> recompute = {});
    void setBudget(Bytes budget); ///< emits nothing
    Bytes budget() const;
    /// `answer` null: none yet. While `busy`, the numbers of the previous plan stay, in grey.
    void setResult(const PlanAnswer* answer, bool busy);
    void setMode(PlanMode mode); ///< emits nothing
    void setPossible(const QString& whyNot); ///< `whyNot`: why no plan of the step is possible; empty: plans are

    /// true: plans may offload, and their figures have the bytes that go to the host.
    void setOffloading(bool offloading);
    OffloadRow* offload() const noexcept { return offload_; }

    Bytes step() const { return scale_->step(); } ///< step in bytes of the keys Left and Right
    void stepBy(int steps);

Q_SIGNALS:
    void budgetDragged(headroom::Bytes budget); ///< while dragging
    void budgetCommitted(headroom::Bytes budget); ///< released, typed, or moved by a key
    void modeWanted(headroom::PlanMode mode);
    void leastBudgetWanted(); ///< the button shown when no plan fits was clicked

private:
    QHBoxLayout* makeHead();
    void moved(Bytes value);
    void showPlan(const PlanAnswer& answer);
    void showOps(const OpsDecisions& decisions);
    void showNothing();
    void showFigures();
    void setMood(ResultFigure::Mood mood);
    void updateFeasible();

    QButtonGroup* modes_;
    BudgetEdit* edit_;
    OffloadRow* offload_;
    BudgetScale* scale_;
    ResultFigure* peak_;
    ResultFigure* time_;
    ResultFigure* modules_;
    ResultFigure* fraction_; ///< this and the next replace the number of modules for plans by op
    ResultFigure* ops_;
    ResultFigure* host_;
    QPushButton* leastButton_;
    QTimer grey_; ///< runs while the figures are of the previous plan, before they turn grey
    bool infeasible_ = false;
    bool possible_ = true;
    bool offloading_ = false;
    PlanMode mode_ = PlanMode::modules;
};

} // namespace headroom
