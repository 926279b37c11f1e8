// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/models/table_delegate.h"

#include "views/models/live_blocks_model.h"
#include "views/models/ops_model.h"
#include "views/plot/text_line.h"
#include "views/theme/theme.h"

#include <QAbstractItemModel>
#include <QHeaderView>
#include <QPainter>
#include <QStringList>
#include <QStyle>
#include <QTreeView>
#include <QtMath>

#include <algorithm>

namespace headroom {
namespace {

constexpr int cellHeight = 23;
constexpr int swatch = 8;
constexpr int headingGap = 10; // additional margin of a right-aligned heading
constexpr int headingIndent = 3; // additional margin of a left-aligned heading

/// What the style leaves free beside the text of a cell, in pixels.
int textMargins(const QStyleOptionViewItem& option)
{
    const QStyle* style = option.widget ? option.widget->style() : nullptr;
    return style ? 2 * (style->pixelMetric(QStyle::PM_FocusFrameHMargin, nullptr, option.widget) + 1) : 0;
}

} // namespace

void TableDelegate::paint(QPainter* painter, const QStyleOptionViewItem& option, const QModelIndex& index) const
{
    const QVariant category = index.data(LiveBlocksModel::CategoryRole);
    if (!category.isValid()) {
        if (option.state.testFlag(QStyle::State_Selected)) // the whole cell: the text is indented
            painter->fillRect(option.rect, option.palette.highlight());
        QStyledItemDelegate::paint(painter, option, index);
        return;
    }
    QStyleOptionViewItem text = option;
    text.rect.setLeft(option.rect.left() + swatch + 4);
    QStyledItemDelegate::paint(painter, text, index);
    const QRectF square(option.rect.left(), option.rect.center().y() - swatch / 2 + 1, swatch, swatch);
    if (option.state.testFlag(QStyle::State_Selected))
        painter->fillRect(QRect(option.rect.topLeft(), QSize(swatch + 4, option.rect.height())),
                          option.palette.highlight());
    painter->fillRect(square, Theme::of(*option.widget).color(static_cast<Category>(category.toInt())));
}

QSize TableDelegate::sizeHint(const QStyleOptionViewItem& option, const QModelIndex& index) const
{
    return {QStyledItemDelegate::sizeHint(option, index).width() + headingGap, cellHeight};
}

void TableDelegate::initStyleOption(QStyleOptionViewItem* option, const QModelIndex& index) const
{
    QStyledItemDelegate::initStyleOption(option, index);
    static const QFont number = Theme::light().number; // both themes have the same fonts
    const bool right = option->displayAlignment.testFlag(Qt::AlignRight);
    if (right)
        option->font = number;
    // A text has the margins of the heading.
    if (!index.data(LiveBlocksModel::CategoryRole).isValid())
        option->rect.adjust(right ? 0 : headingIndent, 0, right ? -headingGap : 0, 0);
    static_assert(int(OpsModel::ModuleNameRole) == int(LiveBlocksModel::ModuleNameRole));
    const int room = option->rect.width() - textMargins(*option);
    if (option->rect.width() > 0 && index.data(OpsModel::ModuleNameRole).toBool())
        option->text = shortenedName(option->font, option->text, room);
    else if (option->rect.width() > 0 && index.data(OpsModel::OpNameRole).toBool())
        option->text = shortenedOpName(option->font, option->text, room);
    if (index.data(OpsModel::ChangedRole).toBool() && option->widget)
        option->palette.setColor(QPalette::Text, Theme::of(*option->widget).accent);
}

QTreeView* makeTableView(QAbstractItemModel* model, bool tree)
{
    auto* view = new QTreeView;
    view->setModel(model);
    view->setItemDelegate(new TableDelegate(view));
    view->setRootIsDecorated(tree);
    view->setUniformRowHeights(true);
    view->setSortingEnabled(true);
    view->setAllColumnsShowFocus(true);
    view->setAlternatingRowColors(false);
    view->setTextElideMode(Qt::ElideMiddle);
    view->header()->setStretchLastSection(false);
    return view;
}

QString tabSeparated(const QAbstractItemModel& table)
{
    // A named result type: a deduced type would be a QStringBuilder that refers to a destroyed temporary.
    const auto line = [&](auto cell) -> QString {
        QStringList cells;
        for (int column = 0; column < table.columnCount(); ++column)
            cells << cell(column);
        return cells.join(QLatin1Char('\t')) + QLatin1Char('\n');
    };
    QString text = line([&](int column) { return table.headerData(column, Qt::Horizontal).toString(); });
    for (int row = 0; row < table.rowCount(); ++row)
        text += line([&](int column) { return table.index(row, column).data().toString(); });
    return text;
}

namespace {

constexpr int rowHeight = 25;
constexpr int pillPadding = 7;
constexpr int pillHeight = 16;
constexpr int smallestPill = 24;
constexpr int shortPill = 56; // width of "100 %": a number is shown whole or not at all
constexpr int leastName = 24; // of a name beside a short pill
constexpr int nameMargin = 3;
constexpr int longestBar = 54;
constexpr int numberWidth = 36; // width of "2210" with a gap
constexpr int barHeight = 6;
constexpr int gap = 6;
constexpr int cellMargin = 14; // as in the header, which has room for an arrow
constexpr int cacheKibibytes = 32 * 1024; // enough for a screen full of rows, each in several states

} // namespace

ModuleDelegate::ModuleDelegate(QObject* parent)
    : QStyledItemDelegate(parent)
    , pictures_(cacheKibibytes)
{
}

QSize ModuleDelegate::sizeHint(const QStyleOptionViewItem& option, const QModelIndex& index) const
{
    return {QStyledItemDelegate::sizeHint(option, index).width(), rowHeight};
}

ModuleDelegate::Cell ModuleDelegate::cellOf(const QModelIndex& index)
{
    Cell cell;
    cell.column = index.column();
    cell.text = index.data().toString();
    switch (cell.column) {
    case ModuleTreeModel::moduleColumn:
        cell.mark = index.data(ModuleTreeModel::MarkRole).value<PlanMark>();
        cell.strong = cell.mark == PlanMark::checkpointed || cell.mark == PlanMark::offloaded
            || (!index.parent().isValid() && index.model()->hasChildren(index));
        cell.pill = index.data(ModuleTreeModel::PillRole).toString();
        cell.pin = index.data(ModuleTreeModel::PinRole).toString();
        break;
    case ModuleTreeModel::keptColumn:
        cell.recorded = index.data(ModuleTreeModel::RecordedRole).toLongLong();
        cell.kept = index.data(ModuleTreeModel::KeptRole).toLongLong();
        cell.scale = index.data(ModuleTreeModel::ScaleRole).toLongLong();
        break;
    case ModuleTreeModel::recomputeColumn:
        if (index.data(ModuleTreeModel::RecomputeRole).toDouble() > 0)
            cell.tint = Cell::Tint::recomputed;
        break;
    case ModuleTreeModel::hostColumn:
        if (index.data(ModuleTreeModel::HostRole).toLongLong() > 0)
            cell.tint = Cell::Tint::moved;
        break;
    default:
        break;
    }
    return cell;
}

void ModuleDelegate::paint(QPainter* painter, const QStyleOptionViewItem& option, const QModelIndex& index) const
{
    theme_ = option.widget ? &Theme::of(*option.widget) : &Theme::make(false);
    const QColor& ground = option.state.testFlag(QStyle::State_Selected) ? theme_->selected
        : option.state.testFlag(QStyle::State_MouseOver)                 ? theme_->hover
                                                                         : theme_->card;
    Cell cell = cellOf(index);
    cell.size = option.rect.size();
    cell.density = painter->device()->devicePixelRatioF();
    cell.ground = ground.rgb();
    const QPixmap* known = pictures_.object(cell);
    if (known) {
        painter->drawPixmap(option.rect.topLeft(), *known);
        return;
    }
    const QSize pixels(qCeil(cell.size.width() * cell.density), qCeil(cell.size.height() * cell.density));
    QPixmap picture(pixels);
    picture.setDevicePixelRatio(cell.density);
    picture.fill(ground);
    QPainter into(&picture);
    paintCell(into, cell);
    into.end();
    painter->drawPixmap(option.rect.topLeft(), picture);
    pictures_.insert(cell, new QPixmap(picture), pixels.width() * pixels.height() * 4 / 1024);
}

void ModuleDelegate::paintCell(QPainter& painter, const Cell& cell) const
{
    painter.setRenderHint(QPainter::Antialiasing);
    switch (cell.column) {
    case ModuleTreeModel::moduleColumn:
        return paintModule(painter, cell);
    case ModuleTreeModel::keptColumn:
        return paintKept(painter, cell);
    default:
        return paintNumber(painter, cell);
    }
}

void ModuleDelegate::paintModule(QPainter& painter, const Cell& cell) const
{
    const QFont& font = cell.strong ? theme_->bodyStrong : theme_->body;

    // The name has priority: long pills get the rest of the width.
    QRect rest = QRect(QPoint(0, 0), cell.size).adjusted(nameMargin, 0, -gap, 0);
    const int name = qCeil(lineWidth(font, cell.text));
    int room = rest.width() - name - gap;
    const bool moves = cell.mark == PlanMark::offloaded || cell.mark == PlanMark::insideOffloaded;
    const auto pill = [&](const QString& text, Pill style) {
        const QRect box = rest.adjusted(std::min(name, leastName) + gap, 0, 0, 0);
        const int width = text.isEmpty() ? 0 : paintPill(painter, box, text, style, room);
        rest.setRight(rest.right() - width - (width > 0 ? gap : 0));
        room -= width + (width > 0 ? gap : 0);
    };
    pill(cell.pill, moves ? Pill::moved : Pill::recomputed);
    pill(cell.pin, Pill::pin);

    painter.setFont(font);
    painter.setPen(cell.mark == PlanMark::none ? theme_->text : moves ? theme_->host : theme_->accent);
    paintName(painter, rest, Qt::AlignLeft | Qt::AlignVCenter, cell.text);
}

/// Paints a pill at the right of the cell; a long pill takes at most `room`. Returns the width; 0: no room.
int ModuleDelegate::paintPill(QPainter& painter, const QRect& box, const QString& text, Pill style, int room) const
{
    const int whole = qRound(lineWidth(theme_->caption, text)) + 2 * pillPadding;
    const bool isShort = whole <= shortPill && whole <= box.width();
    const int width = isShort ? whole : std::min(whole, room);
    if (width < smallestPill)
        return 0;
    painter.setFont(theme_->caption);
    const QRectF pill(box.right() - width + 0.5, box.center().y() - pillHeight / 2.0 + 1, width, pillHeight);
    const bool filled = style != Pill::pin;
    const bool moved = style == Pill::moved;
    painter.setPen(filled ? QPen(Qt::NoPen) : QPen(theme_->secondText, 1));
    painter.setBrush(filled ? QBrush(moved ? theme_->hostSoft : theme_->accentSoft) : QBrush(Qt::NoBrush));
    painter.drawRoundedRect(pill, pillHeight / 2.0, pillHeight / 2.0);
    painter.setPen(!filled ? theme_->secondText : moved ? theme_->host : theme_->accent);
    // The width is rounded, so that a whole text may need a pixel of the padding.
    const double padding = width == whole ? pillPadding - 1 : pillPadding;
    paintElided(painter, pill.adjusted(padding, 0, -padding, 0), Qt::AlignCenter, text, Qt::ElideRight);
    return width;
}

void ModuleDelegate::paintKept(QPainter& painter, const Cell& cell) const
{
    const QRect box(QPoint(0, 0), cell.size);
    const auto scale = std::max({cell.scale, cell.recorded, cell.kept, qint64(1)});
    const int longest = std::clamp(box.width() - gap - numberWidth - cellMargin, 0, longestBar);
    const auto bar = [&](qint64 bytes) {
        const double length = longest * static_cast<double>(bytes) / static_cast<double>(scale);
        return QRectF(gap, box.center().y() - barHeight / 2.0 + 1, std::max(length, 1.0), barHeight);
    };
    if (cell.recorded > 0)
        theme_->paintPale(painter, bar(cell.recorded), Category::activation);
    if (cell.kept > 0)
        painter.fillRect(bar(cell.kept), theme_->color(Category::activation));
    painter.setFont(theme_->number);
    painter.setPen(cell.kept > 0 ? theme_->text : theme_->secondText);
    paintLine(painter, box.adjusted(0, 0, -cellMargin, 0), Qt::AlignRight | Qt::AlignVCenter, cell.text);
}

void ModuleDelegate::paintNumber(QPainter& painter, const Cell& cell) const
{
    const QRect box(QPoint(0, 0), cell.size);
    painter.setFont(theme_->number);
    painter.setPen(cell.tint == Cell::Tint::recomputed  ? theme_->accent
                       : cell.tint == Cell::Tint::moved ? theme_->host
                                                        : theme_->secondText);
    paintLine(painter, box.adjusted(0, 0, -cellMargin, 0), Qt::AlignRight | Qt::AlignVCenter, cell.text);
}

} // namespace headroom
