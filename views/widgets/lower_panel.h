// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/timeline/timeline.h"

#include <QWidget>

class QButtonGroup;
class QSplitter;
class QStackedWidget;
class QToolButton;
class QTreeView;

namespace headroom {

class IcicleView;
class LiveBlocksModel;
class OpsModel;
class TradeOffView;
class WrappedLabel;

/// The panel below the timeline. It shows one of six pages: the trade-off curve of the selected module, a table of the
/// live blocks at an instant, a table of the module's ops, the memory that the caching allocator reserves, the sizes of
/// the step that fit a card, or the comparison with another peak. Above the page stands what happens in the range that
/// is selected on the timeline, if there is one.
class LowerPanel : public QWidget
{
    Q_OBJECT
public:
    enum class Page { tradeOff, liveBlocks, ops, reserved, fit, peaks };

    LowerPanel(TradeOffView* tradeOff, LiveBlocksModel* blocks, OpsModel* ops, QWidget* reserved, QWidget* fit,
               QWidget* peaks, QWidget* parent = nullptr);

    void show(Page page);
    Page page() const;
    void setLiveTitle(const QString& title);
    void setOpsTitle(const QString& title);
    void
    setOpsPlanned(bool planned); ///< true: shows the column of each op's decision, and the filter for changed decisions
    void setHasUnits(bool has); ///< true: offers unsharded bytes by unit of FSDP among the live blocks
    void setHasLines(bool has); ///< true: shows the columns of source lines
    void setComparing(bool comparing); ///< true: shows the columns of measured times
    /// Shows what happens in the selected range, in a line each: the sums, and what makes most. Empty: no range.
    void setRange(const QString& sums, const QString& most);
    bool showsIcicle() const noexcept { return showsIcicle_; } ///< the icicle has room, or is chosen
    void showChanged(); ///< shows the table with only the ops with a changed decision
    QTreeView* ops() const noexcept { return ops_; }
    QTreeView* liveBlocks() const noexcept { return live_; }
    IcicleView* icicle() const noexcept { return icicle_; } ///< beside the table of live blocks

Q_SIGNALS:
    void pageShown(headroom::LowerPanel::Page page);
    void moduleWanted(headroom::ModuleId module); ///< a row was activated
    void onlyChangedWanted(bool only);
    void unitsWanted(bool wanted); ///< request for the unsharded live blocks, by unit
    void onlyModuleWanted(bool only); ///< with a range: request for the ops of the selected module alone
    void rangeClosed();
    void icicleShown();
    void lineWanted(); ///< the line of the current row of the table was clicked

protected:
    bool eventFilter(QObject* watched, QEvent* event) override;

private:
    void giveWidths();
    void makeLinks(QTreeView* table, int column);
    QWidget* makeRangeBar();
    QWidget* makeTable(QTreeView* view, QWidget* content, WrappedLabel* title, const QString& name, QWidget* beside);
    QWidget* makeLiveContent();
    void arrangeLive();

    QButtonGroup* switch_;
    WrappedLabel* rangeSums_;
    WrappedLabel* rangeMost_;
    QWidget* rangeBar_;
    QStackedWidget* pages_;
    WrappedLabel* liveTitle_;
    WrappedLabel* opsTitle_;
    QTreeView* live_;
    IcicleView* icicle_;
    QSplitter* liveContent_; ///< the table of live blocks and the icicle
    QToolButton* showIcicle_; ///< in a narrow window: the icicle in place of the table
    bool hasLines_ = false;
    bool showsIcicle_ = false;
    QTreeView* ops_;
    QToolButton* onlyChanged_;
    QToolButton* onlyModule_;
    QToolButton* units_;
};

} // namespace headroom
