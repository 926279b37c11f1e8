// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/timeline/timeline.h"

#include <QWidget>

class QAbstractItemModel;
class QButtonGroup;
class QLabel;
class QStackedWidget;
class QToolButton;
class QTreeView;

namespace headroom {

class LiveBlocksModel;
class OpsModel;
class TradeOffView;

/// Below the timeline: the trade-off curve of the selected module, or as tables what is alive at an instant and the ops
/// of the module, or what the caching allocator reserves. One of them is shown at a time.
class LowerPanel : public QWidget
{
    Q_OBJECT
public:
    enum class Page { tradeOff, liveBlocks, ops, reserved };

    LowerPanel(TradeOffView* tradeOff, LiveBlocksModel* blocks, OpsModel* ops, QWidget* reserved,
               QWidget* parent = nullptr);

    void show(Page page);
    Page page() const;
    void setLiveTitle(const QString& title);
    void setOpsTitle(const QString& title);
    void setOpsPlanned(bool planned); ///< single ops are planned: what becomes of each is a column, and flips a filter
    void setHasUnits(bool has); ///< FSDP has units in this step: what they have unsharded is a choice of live blocks
    void setComparing(bool comparing); ///< what was measured of each op has columns
    void showFlips(); ///< only the ops that flip, in the table
    QTreeView* ops() const noexcept { return ops_; }
    QTreeView* liveBlocks() const noexcept { return live_; }

Q_SIGNALS:
    void pageShown(headroom::LowerPanel::Page page);
    void moduleWanted(headroom::ModuleId module); ///< a row was activated
    void onlyFlipsWanted(bool only);
    void unitsWanted(bool wanted); ///< live blocks: what is unsharded, by unit

protected:
    bool eventFilter(QObject* watched, QEvent* event) override;

private:
    void giveWidths();
    QWidget* makeTable(QTreeView* view, QLabel* title, const QString& name, QWidget* beside = nullptr);

    QButtonGroup* switch_;
    QStackedWidget* pages_;
    QLabel* liveTitle_;
    QLabel* opsTitle_;
    QTreeView* live_;
    QTreeView* ops_;
    QToolButton* onlyFlips_;
    QToolButton* units_;
};

} // namespace headroom
