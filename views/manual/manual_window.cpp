// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/manual/manual_window.h"

#include "views/manual/manual_pages.h"
#include "views/theme/styles.h"
#include "views/theme/theme.h"

#include <QApplication>
#include <QHBoxLayout>
#include <QKeyEvent>
#include <QLabel>
#include <QLineEdit>
#include <QListWidget>
#include <QPainter>
#include <QScrollBar>
#include <QShortcut>
#include <QSplitter>
#include <QStackedWidget>
#include <QTextLayout>
#include <QToolButton>
#include <QTreeWidget>

namespace headroom {
namespace {

constexpr int sideRoom = 10;
constexpr int upperRoom = 7;
constexpr int excerptLines = 2;

QList<QTextLayout::FormatRange> found(const QString& text, const QStringList& words, const Theme& theme)
{
    QTextCharFormat format;
    format.setForeground(theme.text);
    format.setFontWeight(QFont::DemiBold);
    QList<QTextLayout::FormatRange> ranges;
    for (const QString& word : words) {
        for (qsizetype at = text.indexOf(word, 0, Qt::CaseInsensitive); at >= 0;
             at = text.indexOf(word, at + word.size(), Qt::CaseInsensitive))
            ranges.push_back({static_cast<int>(at), static_cast<int>(word.size()), format});
    }
    return ranges;
}

/// Draws the first lines of the text.
void drawLines(QPainter& painter, const QString& text, const QRect& area, const QStringList& words, const Theme& theme)
{
    QTextLayout layout(text, theme.caption);
    layout.setFormats(found(text, words, theme));
    layout.beginLayout();
    int y = 0;
    for (int i = 0; i < excerptLines; ++i) {
        QTextLine line = layout.createLine();
        if (!line.isValid())
            break;
        line.setLineWidth(area.width());
        line.setPosition({0.0, static_cast<double>(y)});
        y += QFontMetrics(theme.caption).lineSpacing();
    }
    layout.endLayout();
    painter.setPen(theme.secondText);
    layout.draw(&painter, area.topLeft());
}

} // namespace

void HitDelegate::paint(QPainter* painter, const QStyleOptionViewItem& option, const QModelIndex& index) const
{
    QStyleOptionViewItem ground(option);
    initStyleOption(&ground, index);
    ground.text.clear();
    const QWidget* widget = option.widget;
    (widget ? widget->style() : QApplication::style())->drawControl(QStyle::CE_ItemViewItem, &ground, painter, widget);
    if (!widget)
        return;
    const Theme& theme = Theme::of(*widget);
    painter->save();
    const QRect area = option.rect.adjusted(sideRoom, upperRoom, -sideRoom, -upperRoom);
    const QFontMetrics title(theme.bodyStrong);
    painter->setFont(theme.bodyStrong);
    painter->setPen(theme.text);
    painter->drawText(QRect(area.topLeft(), QSize(area.width(), title.height())), Qt::AlignLeft | Qt::AlignTop,
                      title.elidedText(index.data().toString(), Qt::ElideRight, area.width()));
    drawLines(*painter, index.data(excerptRole).toString(), area.adjusted(0, title.lineSpacing() + 1, 0, 0), words_,
              theme);
    painter->restore();
}

QSize HitDelegate::sizeHint(const QStyleOptionViewItem& option, const QModelIndex&) const
{
    if (!option.widget)
        return {};
    const Theme& theme = Theme::of(*option.widget);
    const int height = QFontMetrics(theme.bodyStrong).lineSpacing() + 1
        + excerptLines * QFontMetrics(theme.caption).lineSpacing() + 2 * upperRoom;
    return {0, height};
}

namespace {

constexpr int linkRole = HitDelegate::linkRole;
constexpr int shortestSearch = 2;
constexpr int rowHeight = 24;

QToolButton* makeButton(const QString& text, const QString& tip, QWidget* parent)
{
    auto* button = new QToolButton(parent);
    button->setText(text);
    button->setToolTip(tip);
    button->setAccessibleName(tip);
    button->setProperty("framed", true);
    button->setFocusPolicy(Qt::TabFocus);
    return button;
}

} // namespace

ManualWindow::ManualWindow(QWidget* parent)
    : QWidget(parent, Qt::Window)
    , search_(new QLineEdit)
    , side_(new QStackedWidget)
    , contents_(new QTreeWidget)
    , hits_(new QListWidget)
    , nothing_(makeLabel(nullptr, tr("The manual has no page with all of the words.")))
    , hitDelegate_(new HitDelegate(this))
    , back_(makeButton(QStringLiteral("←"), tr("Back (Alt+Left)"), this))
    , forward_(makeButton(QStringLiteral("→"), tr("Forward (Alt+Right)"), this))
    , count_(new QLabel)
    , view_(new ManualView)
{
    setObjectName(QStringLiteral("manual"));
    setWindowTitle(tr("Manual – Headroom"));
    auto* page = makeCard(this);
    auto* column = makeLayout<QVBoxLayout>(page, {1, 1, 1, 1}, 0);
    column->addWidget(makeBar());
    column->addWidget(view_, 1);
    auto* sides = new QSplitter(Qt::Horizontal, this);
    sides->addWidget(makeSide());
    sides->addWidget(page);
    sides->setStretchFactor(1, 1);
    sides->setSizes({290, 800});
    sides->setHandleWidth(8);
    sides->setChildrenCollapsible(false);
    auto* whole = makeLayout<QVBoxLayout>(this, {12, 12, 12, 12});
    whole->addWidget(sides);
    fillContents();
    addKeys();
    connect(view_, &ManualView::linkWanted, this, &ManualWindow::showLink);
    setTabOrder(search_, contents_);
    setTabOrder(contents_, hits_);
    setTabOrder(hits_, view_);
    setTabOrder(view_, back_);
    setTabOrder(back_, forward_);
    showCount();
}

QWidget* ManualWindow::makeSide()
{
    search_->setObjectName(QStringLiteral("manualSearch"));
    search_->setPlaceholderText(tr("Search the manual"));
    search_->setClearButtonEnabled(true);
    search_->setAccessibleName(search_->placeholderText());
    search_->installEventFilter(this);
    connect(search_, &QLineEdit::textChanged, this, &ManualWindow::showHits);
    contents_->setObjectName(QStringLiteral("manualContents"));
    contents_->setAccessibleName(tr("Contents of the manual"));
    contents_->setHeaderHidden(true);
    contents_->setIndentation(14);
    contents_->setExpandsOnDoubleClick(false);
    hits_->setObjectName(QStringLiteral("manualHits"));
    hits_->setAccessibleName(tr("Places in the manual that have the words"));
    hits_->setItemDelegate(hitDelegate_);
    hits_->setFrameShape(QFrame::NoFrame);
    hits_->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    connect(hits_, &QListWidget::currentRowChanged, this, &ManualWindow::openHit);
    connect(hits_, &QListWidget::itemActivated, this, [this] { view_->setFocus(); });
    nothing_->setProperty("second", true);
    nothing_->setWordWrap(true);
    nothing_->setAlignment(Qt::AlignTop | Qt::AlignLeft);
    nothing_->setContentsMargins(10, 8, 10, 8);
    for (QWidget* widget : std::initializer_list<QWidget*>{contents_, hits_, nothing_})
        side_->addWidget(widget);
    auto* card = makeCard(this);
    card->setMinimumWidth(220);
    auto* column = makeLayout<QVBoxLayout>(card, {8, 8, 8, 8}, 8);
    column->addWidget(search_);
    column->addWidget(side_, 1);
    return card;
}

QWidget* ManualWindow::makeBar()
{
    auto* bar = new QWidget(this);
    auto* row = makeLayout<QHBoxLayout>(bar, {10, 8, 14, 0});
    row->addWidget(back_);
    row->addWidget(forward_);
    row->addStretch(1);
    row->addWidget(count_);
    count_->setObjectName(QStringLiteral("manualCount"));
    count_->setProperty("second", true);
    connect(back_, &QToolButton::clicked, this, &ManualWindow::goBack);
    connect(forward_, &QToolButton::clicked, this, &ManualWindow::goForward);
    return bar;
}

void ManualWindow::fillContents()
{
    for (const ManualPage& page : ManualPages::all().pages()) {
        auto* item = new QTreeWidgetItem(contents_, {page.title});
        item->setSizeHint(0, {0, rowHeight});
        item->setData(0, linkRole, page.file);
        for (const ManualSection& section : page.sections) {
            if (section.level != 2)
                continue;
            auto* child = new QTreeWidgetItem(item, {section.title});
            child->setSizeHint(0, {0, rowHeight});
            child->setData(0, linkRole, QString(page.file + QLatin1Char('#') + section.anchor));
        }
    }
    connect(contents_, &QTreeWidget::currentItemChanged, this, [this](const QTreeWidgetItem* item) {
        if (item && item->data(0, linkRole).toString() != link())
            showLink(item->data(0, linkRole).toString());
    });
    connect(contents_, &QTreeWidget::itemActivated, this, [this] { view_->setFocus(); });
}

void ManualWindow::addKeys()
{
    const auto add = [this](const QKeySequence& keys, auto act) {
        connect(new QShortcut(keys, this), &QShortcut::activated, this, act);
    };
    add(QKeySequence::Find, [this] {
        search_->setFocus(Qt::ShortcutFocusReason);
        search_->selectAll();
    });
    add(QKeySequence(Qt::ALT | Qt::Key_Left), [this] { goBack(); });
    add(QKeySequence(Qt::ALT | Qt::Key_Right), [this] { goForward(); });
    add(QKeySequence(Qt::Key_F3), [this] { goToMatch(1); });
    add(QKeySequence(Qt::SHIFT | Qt::Key_F3), [this] { goToMatch(-1); });
    add(QKeySequence(Qt::Key_Escape), [this] { leave(); });
    add(QKeySequence(Qt::CTRL | Qt::Key_W), [this] { close(); });
}

QString ManualWindow::link() const
{
    return now_ < 0 ? QString() : history_[static_cast<std::size_t>(now_)].link;
}

void ManualWindow::showLink(const QString& wanted)
{
    const ManualPages& pages = ManualPages::all();
    const QString to = pages.findSection(wanted) ? wanted : pages.pages().front().file;
    if (to == link()) {
        view_->scrollToSection(to.section(QLatin1Char('#'), 1));
        return;
    }
    if (now_ >= 0)
        history_[static_cast<std::size_t>(now_)].scrolled = view_->verticalScrollBar()->value();
    history_.resize(static_cast<std::size_t>(now_ + 1));
    history_.push_back({to, -1});
    ++now_;
    showEntry(history_.back());
}

void ManualWindow::goTo(int entry)
{
    if (entry < 0 || entry >= static_cast<int>(history_.size()))
        return;
    history_[static_cast<std::size_t>(now_)].scrolled = view_->verticalScrollBar()->value();
    now_ = entry;
    showEntry(history_[static_cast<std::size_t>(now_)]);
}

void ManualWindow::showEntry(const HistoryEntry& entry)
{
    const ManualPage* page = ManualPages::all().find(entry.link.section(QLatin1Char('#'), 0, 0));
    if (view_->page() != page)
        view_->showPage(*page);
    view_->highlight({}, {});
    view_->scrollToSection(entry.link.section(QLatin1Char('#'), 1));
    if (entry.scrolled >= 0)
        view_->verticalScrollBar()->setValue(entry.scrolled);
    back_->setEnabled(now_ > 0);
    forward_->setEnabled(now_ + 1 < static_cast<int>(history_.size()));
    selectInContents(entry.link);
    showCount();
}

void ManualWindow::selectInContents(const QString& wanted)
{
    const QString file = wanted.section(QLatin1Char('#'), 0, 0);
    for (int row = 0; row < contents_->topLevelItemCount(); ++row) {
        QTreeWidgetItem* item = contents_->topLevelItem(row);
        const bool shown = item->data(0, linkRole).toString() == file;
        item->setExpanded(shown);
        if (!shown)
            continue;
        QTreeWidgetItem* chosen = item;
        for (int child = 0; child < item->childCount(); ++child) {
            if (item->child(child)->data(0, linkRole).toString() == wanted)
                chosen = item->child(child);
        }
        contents_->setCurrentItem(chosen);
    }
}

void ManualWindow::showHits(const QString& text)
{
    const QStringList words = ManualPages::wordsOf(text);
    const bool searches = text.trimmed().size() >= shortestSearch;
    const std::vector<ManualHit> found = searches ? ManualPages::all().search(text) : std::vector<ManualHit>();
    const QSignalBlocker quiet(hits_);
    hits_->clear();
    hitDelegate_->setWords(words);
    for (const ManualHit& hit : found) {
        const bool isTitle = hit.section == &hit.page->sections.front();
        auto* item = new QListWidgetItem(
            isTitle ? hit.page->title : tr("%1: %2").arg(hit.page->title, hit.section->title), hits_);
        item->setData(HitDelegate::excerptRole, hit.excerpt);
        item->setData(HitDelegate::linkRole, hit.link());
        item->setToolTip(item->text());
    }
    QWidget* nothingOrHits = found.empty() ? static_cast<QWidget*>(nothing_) : hits_;
    side_->setCurrentWidget(searches ? nothingOrHits : contents_);
    if (!searches)
        view_->highlight({}, {});
    showCount();
}

void ManualWindow::openHit(int row)
{
    const QListWidgetItem* item = hits_->item(row);
    if (!item)
        return;
    const QString to = item->data(HitDelegate::linkRole).toString();
    showLink(to);
    view_->highlight(ManualPages::wordsOf(search_->text()), to.section(QLatin1Char('#'), 1));
    showCount();
}

void ManualWindow::goToMatch(int step)
{
    view_->goToMatch(step);
    showCount();
}

void ManualWindow::showCount()
{
    count_->setText(view_->matches() == 0
                        ? QString()
                        : tr("%1 of %2 on this page").arg(view_->currentMatch() + 1).arg(view_->matches()));
}

void ManualWindow::leave()
{
    if (search_->text().isEmpty()) {
        close();
        return;
    }
    search_->clear();
    contents_->setFocus();
}

bool ManualWindow::eventFilter(QObject* watched, QEvent* event)
{
    if (watched != search_ || event->type() != QEvent::KeyPress || hits_->count() == 0)
        return QWidget::eventFilter(watched, event);
    const int key = static_cast<QKeyEvent*>(event)->key();
    const bool down = key == Qt::Key_Down;
    if (!down && key != Qt::Key_Return && key != Qt::Key_Enter)
        return false;
    if (hits_->currentRow() < 0)
        hits_->setCurrentRow(0);
    else
        openHit(hits_->currentRow());
    (down ? static_cast<QWidget*>(hits_) : view_)->setFocus();
    return true;
}

} // namespace headroom
