// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/window/open_step.h"
#include "views/widgets/lower_panel.h"

#include <QWidget>

#include <optional>

class QFrame;
class QLabel;
class QSplitter;
class QToolButton;

namespace headroom {

class Actions;
class BudgetBar;
class ElidedLabel;
class Inspector;
class Jobs;
class LiveBlocksModel;
class ModulePanel;
class ModuleTreeModel;
class OpsModel;
class Session;
class Settings;
class TimelineView;
class TradeOffView;

/// The window while a step is open: header, module tree, timeline over trade-off, inspector, budget bar. Wires the
/// session to the views and the views to the session; owns no state but what is shown.
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
    LowerPanel* lowerPanel() const noexcept { return lower_; }

private:
    struct Instant
    {
        std::size_t changeCount = 0;
        bool planned = false;
    };

    QWidget* makeHeader();
    void layOut();
    void wireSession();
    void wireViews();
    void wireActions();

    void showStep();
    void showAnswer();
    void selectFirstRegion();
    void showSelection();
    void showInspector();
    void showBudget(Bytes budget);
    void showBudgetRange();
    void showPins();
    void applyPin(std::optional<Pin> pin);
    TimelinePtr shownTimeline() const; ///< what is drawn as planned; null: nothing
    void askForLiveMemory();
    void showLiveMemory(const LiveMemory& memory);
    void showOps();

    Session& session_;
    Jobs& jobs_;
    Actions& actions_;
    ModuleTreeModel* moduleModel_;
    LiveBlocksModel* liveModel_;
    OpsModel* opsModel_;
    QLabel* name_;
    ElidedLabel* facts_;
    ModulePanel* modules_;
    TimelineView* timeline_;
    TradeOffView* tradeOff_;
    LowerPanel* lower_;
    Inspector* inspector_;
    BudgetBar* budgetBar_;
    QSplitter* sides_;
    QSplitter* centre_;
    std::optional<Instant> pinned_;
    bool selectionIsOurs_ = false; ///< chosen by the window, not by the user
};

} // namespace headroom
