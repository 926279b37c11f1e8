// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/window/open_step.h"
#include "views/widgets/lower_panel.h"

#include <QWidget>

#include <optional>

class QSplitter;

namespace headroom {

class Actions;
class BudgetBar;
class ComparisonBar;
class FitPage;
class Inspector;
class Jobs;
class LowerPages;
class ModulePanel;
class ModuleTreeModel;
class Session;
class Settings;
class StepHeader;
class TimelineView;
class TradeOffView;

/// The page shown while a step is open: header, module tree, timeline, lower panel, inspector, budget bar. It connects
/// the session and the views; all state except the layout is in the session.
class DocumentPage : public QWidget
{
    Q_OBJECT
public:
    DocumentPage(Session& session, Jobs& jobs, Actions& actions, QWidget* parent = nullptr);

    void restoreLayout(const Settings& settings);
    void saveLayout(Settings& settings) const;

    TimelineView* timeline() const noexcept { return timeline_; }
    TradeOffView* tradeOff() const noexcept { return tradeOff_; }
    ModulePanel* modules() const noexcept { return modules_; }
    Inspector* inspector() const noexcept { return inspector_; }
    BudgetBar* budgetBar() const noexcept { return budgetBar_; }
    StepHeader* header() const noexcept { return header_; }
    ComparisonBar* comparisonBar() const noexcept { return comparison_; }
    LowerPanel* lowerPanel() const noexcept;
    FitPage* fit() const noexcept;

Q_SIGNALS:
    void lineWanted(headroom::FrameId frame); ///< request to open a line of source code; invalid: not known

protected:
    void resizeEvent(QResizeEvent* event) override;

private:
    void layOut();
    void wireSession();
    void wireViews();
    void wireActions();

    void showStep();
    void showMode();
    void showAnswer();
    void showComparison();
    void showCollectives();
    void showNoAnswer();
    void selectFirstRegion();
    void showSelection();
    void showInspector();
    void showBudget(Bytes budget);
    void showBudgetRange();
    void showPins();
    void showOffload();
    void applyPin(std::optional<Pin> pin);

    Session& session_;
    Actions& actions_;
    StepHeader* header_;
    ComparisonBar* comparison_;
    QWidget* comparisonCard_;
    ModuleTreeModel* moduleModel_;
    ModulePanel* modules_;
    TimelineView* timeline_;
    TradeOffView* tradeOff_;
    LowerPages* lower_;
    Inspector* inspector_;
    BudgetBar* budgetBar_;
    QSplitter* sides_;
    QSplitter* centre_;
    bool selectionIsOurs_ = false; ///< the window selected the module, not the user
};

} // namespace headroom
