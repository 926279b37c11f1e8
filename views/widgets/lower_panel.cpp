// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/widgets/lower_panel.h"

#include "views/models/live_blocks_model.h"
#include "views/models/ops_model.h"
#include "views/models/table_delegate.h"
#include "views/plot/icicle.h"
#include "views/plot/tradeoff_view.h"
#include "views/theme/styles.h"
#include "views/widgets/labels.h"

#include <QButtonGroup>
#include <QEvent>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QScrollArea>
#include <QSplitter>
#include <QStackedWidget>
#include <QToolButton>
#include <QTreeView>
#include <QVBoxLayout>

#include <algorithm>
#include <initializer_list>
#include <utility>

namespace headroom {
namespace {

constexpr int narrowestName = 104;

} // namespace

LowerPanel::LowerPanel(TradeOffView* tradeOff, LiveBlocksModel* blocks, OpsModel* ops, QWidget* reserved, QWidget* fit,
                       QWidget* peaks, QWidget* parent)
    : QWidget(parent)
    , switch_(new QButtonGroup(this))
    , rangeSums_(new WrappedLabel(this))
    , rangeMost_(new WrappedLabel(this))
    , rangeBar_(makeRangeBar())
    , pages_(new QStackedWidget(this))
    , liveTitle_(new WrappedLabel(this))
    , opsTitle_(new WrappedLabel(this))
    , live_(makeTableView(blocks, true))
    , icicle_(new IcicleView(this))
    , liveContent_(new QSplitter(Qt::Horizontal, this))
    , showIcicle_(makeSegment(tr("Icicle"), this))
    , ops_(makeTableView(ops, false))
    , onlyChanged_(makeSegment(tr("Only changed decisions"), this))
    , onlyModule_(makeSegment(tr("Only the selected module"), this))
    , units_(makeSegment(tr("Unsharded, by unit"), this))
{
    auto* row = makeLayout<QHBoxLayout>(nullptr, {12, 8, 12, 0}, 2);
    int id = 0;
    for (const QString& text :
         {tr("Trade-off"), tr("Live blocks"), tr("Ops"), tr("Reserved"), tr("Fit"), tr("Compare")}) {
        auto* button = makeSegment(text, this);
        button->setProperty("small", true);
        switch_->addButton(button, id++);
        row->addWidget(button);
    }
    row->addStretch(1);
    auto* column = makeLayout<QVBoxLayout>(this, {0, 0, 0, 0}, 0);
    column->addLayout(row);
    column->addWidget(rangeBar_);
    column->addWidget(pages_, 1);

    pages_->addWidget(makeScrolling(tradeOff, this));
    units_->setObjectName(QStringLiteral("unshardedUnits"));
    units_->setToolTip(
        tr("Show what FSDP has unsharded, by the modules that the script wrapped: parameters, gradients and "
           "buffers of collectives"));
    units_->hide();
    connect(units_, &QToolButton::toggled, this, &LowerPanel::unitsWanted);
    auto* switches = new QWidget(this);
    auto* switchRow = makeLayout<QHBoxLayout>(switches, {0, 0, 0, 0}, 2);
    switchRow->addWidget(units_);
    switchRow->addWidget(showIcicle_);
    pages_->addWidget(makeTable(live_, makeLiveContent(), liveTitle_, tr("Live blocks"), switches));
    onlyChanged_->setObjectName(QStringLiteral("onlyFlips"));
    onlyChanged_->setToolTip(tr("Show the ops that the next plan with more memory treats differently"));
    connect(onlyChanged_, &QToolButton::toggled, this, &LowerPanel::onlyChangedWanted);
    onlyModule_->setObjectName(QStringLiteral("onlyModule"));
    onlyModule_->setToolTip(tr("Show only the selected module's ops in the range"));
    onlyModule_->hide();
    connect(onlyModule_, &QToolButton::toggled, this, &LowerPanel::onlyModuleWanted);
    auto* opsSwitches = new QWidget(this);
    auto* opsSwitchRow = makeLayout<QHBoxLayout>(opsSwitches, {0, 0, 0, 0}, 2);
    opsSwitchRow->addWidget(onlyModule_);
    opsSwitchRow->addWidget(onlyChanged_);
    pages_->addWidget(makeTable(ops_, ops_, opsTitle_, tr("Ops"), opsSwitches));
    pages_->addWidget(reserved);
    pages_->addWidget(makeScrolling(fit, this));
    pages_->addWidget(peaks);
    live_->sortByColumn(LiveBlocksModel::sizeColumn, Qt::DescendingOrder);
    live_->header()->setSectionResizeMode(LiveBlocksModel::nameColumn, QHeaderView::Stretch);
    live_->header()->resizeSection(LiveBlocksModel::categoryColumn, 130);
    live_->header()->resizeSection(LiveBlocksModel::sizeColumn, 100);
    live_->header()->resizeSection(LiveBlocksModel::lineColumn, 220);
    ops_->sortByColumn(OpsModel::numberColumn, Qt::AscendingOrder);
    ops_->viewport()->installEventFilter(this);
    for (const auto& [section, width] : {std::pair(OpsModel::numberColumn, 56), std::pair(OpsModel::phaseColumn, 84),
                                         std::pair(OpsModel::bytesColumn, 82), std::pair(OpsModel::msColumn, 72),
                                         std::pair(OpsModel::measuredColumn, 108), std::pair(OpsModel::ratioColumn, 64),
                                         std::pair(OpsModel::planColumn, 120), std::pair(OpsModel::lineColumn, 220)})
        ops_->header()->resizeSection(section, width);
    setOpsPlanned(false);
    setHasLines(false);
    setComparing(false);

    connect(switch_, &QButtonGroup::idClicked, this, [this](int clicked) { show(static_cast<Page>(clicked)); });
    connect(live_, &QTreeView::activated, this,
            [this, blocks](const QModelIndex& index) { Q_EMIT moduleWanted(blocks->moduleAt(index)); });
    for (const auto& [table, lines] :
         {std::pair(live_, int(LiveBlocksModel::lineColumn)), std::pair(ops_, int(OpsModel::lineColumn))})
        makeLinks(table, lines);
    switch_->button(0)->setChecked(true);
}

/// Makes the cells of a column links to source code.
void LowerPanel::makeLinks(QTreeView* table, int column)
{
    const auto isLink
        = [column](const QModelIndex& index) { return index.column() == column && !index.data().toString().isEmpty(); };
    const auto showHand
        = [table](bool hand) { table->viewport()->setCursor(hand ? Qt::PointingHandCursor : Qt::ArrowCursor); };
    table->setMouseTracking(true);
    connect(table, &QTreeView::entered, this, [=](const QModelIndex& index) { showHand(isLink(index)); });
    connect(table, &QTreeView::viewportEntered, this, [=] { showHand(false); });
    connect(table, &QTreeView::clicked, this, [this, isLink](const QModelIndex& index) {
        if (isLink(index))
            Q_EMIT lineWanted();
    });
}

QWidget* LowerPanel::makeRangeBar()
{
    auto* bar = new QWidget(this);
    bar->setObjectName(QStringLiteral("range"));
    bar->setAccessibleName(tr("Selected range"));
    bar->hide();
    rangeSums_->setObjectName(QStringLiteral("rangeSums"));
    rangeMost_->setObjectName(QStringLiteral("rangeMost"));
    rangeMost_->setProperty("second", true);
    QToolButton* close = makeCloseButton(tr("Clear the range: show the whole step (Esc in the timeline)"), bar);
    close->setObjectName(QStringLiteral("clearRange"));
    close->setText(QStringLiteral("✕"));
    close->setFocusPolicy(Qt::TabFocus);
    connect(close, &QToolButton::clicked, this, &LowerPanel::rangeClosed);
    auto* row = makeLayout<QHBoxLayout>(bar, {12, 4, 8, 0}, 8);
    auto* words = new QVBoxLayout;
    words->setSpacing(1);
    words->addWidget(rangeSums_);
    words->addWidget(rangeMost_);
    row->addLayout(words, 1);
    row->addWidget(close, 0, Qt::AlignTop);
    return bar;
}

void LowerPanel::setRange(const QString& sums, const QString& most)
{
    const bool has = !sums.isEmpty();
    rangeSums_->setText(sums);
    rangeMost_->setText(most);
    rangeMost_->setVisible(!most.isEmpty());
    rangeBar_->setAccessibleDescription(sums + QLatin1Char(' ') + most);
    rangeBar_->setVisible(has);
    onlyModule_->setVisible(has);
    if (has)
        announce(*rangeBar_);
    else
        onlyModule_->setChecked(false);
}

QWidget* LowerPanel::makeTable(QTreeView* view, QWidget* content, WrappedLabel* title, const QString& name,
                               QWidget* beside)
{
    auto* page = new QWidget(this);
    auto* column = makeLayout<QVBoxLayout>(page, {12, 6, 8, 8}, 4);
    title->setProperty("second", true);
    view->setAccessibleName(name);
    auto* head = new QHBoxLayout;
    head->addWidget(title, 1, Qt::AlignVCenter);
    head->addWidget(beside);
    column->addLayout(head);
    column->addWidget(content, 1);
    return page;
}

/// The table of live blocks with the icicle beside it, which scrolls if it is taller.
QWidget* LowerPanel::makeLiveContent()
{
    liveContent_->addWidget(live_);
    liveContent_->addWidget(makeScrolling(icicle_, this));
    liveContent_->setSizes({480, 480});
    liveContent_->installEventFilter(this);
    showIcicle_->setObjectName(QStringLiteral("showIcicle"));
    showIcicle_->setToolTip(tr("Show the live blocks as an icicle: by module, line and block"));
    connect(showIcicle_, &QToolButton::toggled, this, &LowerPanel::arrangeLive);
    return liveContent_;
}

/// Shows table and icicle side by side if both have room, else one of them; and the lines if the table has room.
void LowerPanel::arrangeLive()
{
    constexpr int roomForBoth = 860;
    constexpr int roomForLines = 640;
    const int width = liveContent_->width();
    const bool isWide = width >= roomForBoth;
    showIcicle_->setVisible(!isWide);
    live_->setVisible(isWide || !showIcicle_->isChecked());
    const bool showed = std::exchange(showsIcicle_, isWide || showIcicle_->isChecked());
    liveContent_->widget(1)->setVisible(showsIcicle_);
    live_->setColumnHidden(LiveBlocksModel::lineColumn, !hasLines_ || (isWide ? width / 2 : width) < roomForLines);
    if (showsIcicle_ && !showed)
        Q_EMIT icicleShown();
}

void LowerPanel::show(Page page)
{
    const int id = static_cast<int>(page);
    switch_->button(id)->setChecked(true);
    if (pages_->currentIndex() == id)
        return;
    pages_->setCurrentIndex(id);
    Q_EMIT pageShown(page);
}

LowerPanel::Page LowerPanel::page() const
{
    return static_cast<Page>(pages_->currentIndex());
}

/// Divides the width that the other columns leave between the names of op and module. Phase and number make room for
/// the least width of the names; after that the table scrolls.
void LowerPanel::giveWidths()
{
    QHeaderView& header = *ops_->header();
    const auto widthLeft = [&] {
        const int names = header.sectionSize(OpsModel::nameColumn) + header.sectionSize(OpsModel::moduleColumn);
        return ops_->viewport()->width() - (header.length() - names);
    };
    const std::initializer_list<int> lessNeeded{OpsModel::phaseColumn, OpsModel::numberColumn};
    for (const int column : lessNeeded)
        ops_->setColumnHidden(column, false);
    for (const int column : lessNeeded) {
        if (widthLeft() < 2 * narrowestName)
            ops_->setColumnHidden(column, true);
    }
    const int left = widthLeft();
    const int name = std::max(left * 47 / 100, narrowestName); // names of modules are longer
    header.resizeSection(OpsModel::nameColumn, name);
    header.resizeSection(OpsModel::moduleColumn, std::max(left - name, narrowestName));
}

bool LowerPanel::eventFilter(QObject* watched, QEvent* event)
{
    if (event->type() == QEvent::Resize && watched == liveContent_)
        arrangeLive();
    else if (event->type() == QEvent::Resize)
        giveWidths();
    return QWidget::eventFilter(watched, event);
}

void LowerPanel::setOpsPlanned(bool planned)
{
    ops_->setColumnHidden(OpsModel::planColumn, !planned);
    giveWidths();
    onlyChanged_->setVisible(planned);
    if (!planned)
        onlyChanged_->setChecked(false);
}

void LowerPanel::setHasUnits(bool has)
{
    units_->setVisible(has);
    if (!has)
        units_->setChecked(false);
}

void LowerPanel::setHasLines(bool has)
{
    hasLines_ = has;
    arrangeLive();
    ops_->setColumnHidden(OpsModel::lineColumn, !has);
    giveWidths();
}

void LowerPanel::setComparing(bool comparing)
{
    ops_->setColumnHidden(OpsModel::measuredColumn, !comparing);
    ops_->setColumnHidden(OpsModel::ratioColumn, !comparing);
    giveWidths();
}

void LowerPanel::showChanged()
{
    onlyChanged_->setChecked(true);
    show(Page::ops);
}

void LowerPanel::setLiveTitle(const QString& title)
{
    liveTitle_->setText(title);
}

void LowerPanel::setOpsTitle(const QString& title)
{
    opsTitle_->setText(title);
}

} // namespace headroom
