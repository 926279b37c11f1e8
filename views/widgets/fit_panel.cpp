// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/widgets/fit_panel.h"

#include "views/models/fit_model.h"
#include "views/models/table_delegate.h"
#include "views/plot/fit_chart.h"
#include "views/plot/number_text.h"
#include "views/theme/styles.h"
#include "views/widgets/labels.h"

#include <QAction>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QKeyEvent>
#include <QLineEdit>
#include <QMenu>
#include <QMouseEvent>
#include <QProgressBar>
#include <QPushButton>
#include <QToolButton>
#include <QTreeView>
#include <QVBoxLayout>

#include <optional>

namespace headroom {
namespace {

constexpr int widthForBoth = 1000; ///< pixels: chart and table beside one another

QLineEdit* makeSizesEdit(const char* name, const QString& accessibleName, QWidget* parent)
{
    auto* edit = new QLineEdit(parent);
    edit->setObjectName(QLatin1String(name));
    edit->setAccessibleName(accessibleName);
    edit->setMinimumWidth(52);
    edit->setMaximumWidth(320);
    return edit;
}

} // namespace

FitPanel::FitPanel(QWidget* parent)
    : QWidget(parent)
    , fields_(new QWidget(this))
    , card_(new QToolButton(this))
    , cards_(new QMenu(card_))
    , batch_(makeSizesEdit("fitBatch", tr("Batches to try"), this))
    , sequence_(makeSizesEdit("fitSequence", tr("Sequence lengths to try"), this))
    , more_(makeSegment(tr("More"), this))
    , globalBatch_(makeSizesEdit("fitGlobalBatch", tr("Samples of an optimizer step"), this))
    , share_(makeSizesEdit("fitShare", tr("Share of the card for this program"), this))
    , beside_(makeSizesEdit("fitBeside", tr("Memory of another program on the card"), this))
    , start_(new QPushButton(tr("Start"), this))
    , bar_(makeProgressBar(this))
    , words_(new ElidedLabel(ElidedLabel::Elide::end, this))
    , help_(makeSegment(tr("What would help"), this))
    , asTable_(makeSegment(tr("Table"), this))
    , export_(makeSegment(tr("Export…"), this))
    , legend_(new LegendBar(this))
    , chart_(new FitChart(this))
    , model_(new FitModel(this))
    , table_(makeTableView(model_, false))
    , changesModel_(new ChangesModel(this))
    , changes_(makeTableView(changesModel_, false))
{
    layOut();
    wire();
    setRunning(false);
    showResult(nullptr, false);
}

void FitPanel::layOut()
{
    card_->setObjectName(QStringLiteral("fitCards"));
    card_->setProperty("framed", true);
    card_->setFocusPolicy(Qt::TabFocus);
    card_->setPopupMode(QToolButton::InstantPopup);
    card_->setMenu(cards_);
    card_->setToolTip(tr("The cards to try"));
    cards_->installEventFilter(this);
    start_->setObjectName(QStringLiteral("fitStart"));
    words_->setObjectName(QStringLiteral("fitWords"));
    words_->setProperty("second", true);
    asTable_->setToolTip(tr("Show the sizes as a table"));
    export_->setObjectName(QStringLiteral("fitExport"));
    export_->setToolTip(tr("Save the chart as SVG, PDF or PNG, or the table as CSV"));
    batch_->setToolTip(tr("A size, a list or a range: 8, 1,2,4, 1..64, or 1.. for all"));
    sequence_->setToolTip(tr("A length, a list or a range: 1024, 512,1024, or 512..65536:64 in steps of 64"));

    auto* fields = makeLayout<QHBoxLayout>(nullptr, {0, 0, 0, 0}, 8);
    fields->addWidget(card_);
    for (const auto& [text, edit] : {std::pair(tr("&Batch"), batch_), std::pair(tr("Se&quence"), sequence_)}) {
        auto* label = makeLabel(this, text);
        label->setBuddy(edit);
        fields->addWidget(label);
        fields->addWidget(edit, 1);
    }
    fields->addWidget(more_);
    fields->addWidget(start_);
    fields->addStretch();
    for (QToolButton* button : {more_, help_, asTable_, export_}) {
        button->setFocusPolicy(Qt::TabFocus);
        button->setProperty("small", true);
    }
    export_->setCheckable(false);
    help_->setCheckable(false);
    help_->setObjectName(QStringLiteral("fitHelp"));
    help_->setToolTip(tr("List changes that save memory on the card, and the cost of each"));
    more_->setObjectName(QStringLiteral("fitMore"));
    more_->setToolTip(tr("Gradient accumulation, and memory that is left to other programs"));
    auto* head = makeLayout<QHBoxLayout>(nullptr, {0, 0, 0, 0}, 4);
    head->addWidget(legend_, 1, Qt::AlignTop);
    head->addStretch();
    head->addWidget(help_, 0, Qt::AlignTop);
    head->addWidget(asTable_, 0, Qt::AlignTop);
    head->addWidget(export_, 0, Qt::AlignTop);
    table_->setAccessibleName(tr("Sizes"));
    table_->header()->setSectionResizeMode(QHeaderView::ResizeToContents);
    table_->header()->setStretchLastSection(true);
    table_->sortByColumn(FitModel::cardColumn, Qt::AscendingOrder);
    auto* content = makeLayout<QHBoxLayout>(nullptr, {0, 0, 0, 0}, 16);
    content->addWidget(chart_, 3);
    content->addWidget(table_, 2);
    content->addWidget(changes_, 1);
    changes_->setAccessibleName(tr("What would help"));
    changes_->setSortingEnabled(false);
    changes_->header()->setSectionResizeMode(QHeaderView::ResizeToContents);
    changes_->header()->setMinimumSectionSize(52); // "Runs" with its margins

    auto* column = makeLayout<QVBoxLayout>(this, {12, 8, 12, 8}, 4);
    auto* rows = makeLayout<QVBoxLayout>(fields_, {0, 0, 0, 0}, 4);
    rows->addLayout(fields);
    rows->addWidget(makeMoreFields());
    column->addWidget(fields_);
    QSizePolicy keepsRoom = bar_->sizePolicy(); // nothing moves when a search begins
    keepsRoom.setRetainSizeWhenHidden(true);
    bar_->setSizePolicy(keepsRoom);
    bar_->setFixedHeight(4);
    column->addWidget(bar_);
    column->addWidget(words_);
    column->addLayout(head);
    column->addLayout(content, 1);
}

/// The second row of fields, hidden until wanted.
QWidget* FitPanel::makeMoreFields()
{
    globalBatch_->setToolTip(tr("Samples of an optimizer step: each batch is a divisor, and gradients accumulate"));
    globalBatch_->setPlaceholderText(tr("256"));
    share_->setToolTip(tr("The share of the card's memory that training may take, as 0.55"));
    share_->setPlaceholderText(tr("1"));
    beside_->setToolTip(tr("Memory that another program takes on the card, as 12 GiB"));
    beside_->setPlaceholderText(tr("0 GiB"));
    auto* row = new QWidget(this);
    auto* fields = makeLayout<QHBoxLayout>(row, {0, 0, 0, 0}, 8);
    for (const auto& [text, edit] : {std::pair(tr("&Global batch"), globalBatch_), std::pair(tr("S&hare"), share_),
                                     std::pair(tr("Besi&de"), beside_)}) {
        auto* label = makeLabel(row, text);
        label->setBuddy(edit);
        fields->addWidget(label);
        fields->addWidget(edit, 1);
    }
    fields->addStretch();
    row->hide();
    connect(more_, &QToolButton::toggled, row, &QWidget::setVisible);
    return row;
}

void FitPanel::wire()
{
    connect(start_, &QPushButton::clicked, this, [this] {
        if (running_)
            Q_EMIT cancelWanted();
        else
            Q_EMIT startWanted();
    });
    for (const QLineEdit* edit : {batch_, sequence_, globalBatch_, share_, beside_})
        connect(edit, &QLineEdit::returnPressed, this, [this] {
            if (!running_ && start_->isEnabled())
                Q_EMIT startWanted();
        });
    connect(cards_, &QMenu::triggered, this, &FitPanel::showCards);
    connect(asTable_, &QToolButton::toggled, this, &FitPanel::showParts);
    connect(export_, &QToolButton::clicked, this, &FitPanel::exportWanted);
    connect(help_, &QToolButton::clicked, this, [this] {
        if (!showsChanges_) {
            Q_EMIT helpWanted();
            return;
        }
        showChanges(nullptr);
        say({});
    });
    connect(changes_, &QTreeView::activated, this,
            [this](const QModelIndex& index) { Q_EMIT changeChosen(static_cast<std::size_t>(index.row())); });
    connect(chart_, &FitChart::chosen, this, &FitPanel::chosen);
    connect(table_, &QTreeView::activated, this, [this](const QModelIndex& index) {
        const FitModel::RowIndex at = model_->rowAt(index);
        Q_EMIT chosen(at.series, at.row);
    });
}

/// A choice among several cards leaves the menu open.
bool FitPanel::eventFilter(QObject* watched, QEvent* event)
{
    const bool isClick = event->type() == QEvent::MouseButtonRelease;
    const bool isKey = event->type() == QEvent::KeyPress
        && (static_cast<QKeyEvent*>(event)->key() == Qt::Key_Space
            || static_cast<QKeyEvent*>(event)->key() == Qt::Key_Return);
    if (watched != cards_ || !(isClick || isKey))
        return QWidget::eventFilter(watched, event);
    QAction* action = isClick ? cards_->actionAt(static_cast<QMouseEvent*>(event)->pos()) : cards_->activeAction();
    if (!action)
        return false;
    action->trigger();
    return true;
}

void FitPanel::changeEvent(QEvent* event)
{
    QWidget::changeEvent(event);
    if (event->type() == QEvent::PaletteChange)
        showLegend();
}

void FitPanel::keyPressEvent(QKeyEvent* event)
{
    if (running_ && event->key() == Qt::Key_Escape)
        Q_EMIT cancelWanted();
    else
        QWidget::keyPressEvent(event);
}

void FitPanel::resizeEvent(QResizeEvent* event)
{
    QWidget::resizeEvent(event);
    showParts();
}

void FitPanel::showParts()
{
    const bool both = width() >= widthForBoth;
    const bool any = model_->rowCount() > 0 && !showsChanges_;
    changes_->setVisible(showsChanges_);
    changes_->header()->setStretchLastSection(both);
    changes_->header()->setSectionResizeMode(ChangesModel::changeColumn,
                                             both ? QHeaderView::ResizeToContents : QHeaderView::Stretch);
    fields_->setVisible(!showsChanges_ || running_); // a recording can be cancelled
    help_->setText(showsChanges_ ? tr("Sizes") : tr("What would help"));
    chart_->setVisible(!showsChanges_ && (both || !asTable_->isChecked() || !any));
    legend_->setVisible(any && chart_->isVisibleTo(this));
    table_->setVisible(any && (both || asTable_->isChecked()));
    asTable_->setVisible(any && !both);
    export_->setVisible(any);
}

void FitPanel::setCards(const std::vector<Card>& cards)
{
    cards_->clear();
    for (const Card& card : cards) {
        const QString title = deviceTitle(card.name);
        QAction* action = cards_->addAction(card.note.isEmpty() ? title : title + u'\t' + card.note);
        action->setData(QString::fromStdString(card.name));
        action->setCheckable(true);
        action->setChecked(card.isChosen);
    }
    showCards();
}

std::vector<std::string> FitPanel::cards() const
{
    std::vector<std::string> names;
    for (const QAction* action : cards_->actions())
        if (action->isChecked())
            names.push_back(action->data().toString().toStdString());
    return names;
}

void FitPanel::showCards()
{
    const std::vector<std::string> names = cards();
    card_->setText(names.empty()           ? tr("No card")
                       : names.size() == 1 ? tr("Card: %1").arg(deviceTitle(names.front()))
                                           : tr("%1 cards").arg(names.size()));
    card_->setAccessibleName(tr("Cards to try: %1").arg(card_->text()));
    setRunning(running_);
}

void FitPanel::setBatch(const QString& sizes, const QString& hint)
{
    batch_->setText(sizes);
    batch_->setPlaceholderText(hint);
}

void FitPanel::setSequence(const QString& sizes, const QString& hint)
{
    sequence_->setText(sizes);
    sequence_->setPlaceholderText(hint);
    setRunning(running_);
}

QString FitPanel::batch() const
{
    return batch_->text().trimmed();
}

QString FitPanel::sequence() const
{
    return sequence_->text().trimmed();
}

QString FitPanel::globalBatch() const
{
    return globalBatch_->text().trimmed();
}

QString FitPanel::share() const
{
    return share_->text().trimmed();
}

QString FitPanel::beside() const
{
    return beside_->text().trimmed();
}

void FitPanel::setWhyNot(const QString& sentence)
{
    whyNot_ = sentence;
    setRunning(running_);
    if (model_->rowCount() == 0)
        chart_->setPicture({}, emptyWords());
}

void FitPanel::setRunning(bool running)
{
    running_ = running;
    start_->setText(running ? tr("Cancel") : tr("Start"));
    start_->setToolTip(running ? tr("End the recordings and keep the sizes that are known (Escape)")
                               : tr("Record this step at other sizes, and plan each for the cards"));
    const bool possible = whyNot_.isEmpty();
    start_->setEnabled(running || (possible && !cards().empty()));
    card_->setEnabled(!running && possible);
    batch_->setEnabled(!running && possible);
    sequence_->setEnabled(!running && possible && !sequence_->placeholderText().isEmpty());
    for (QLineEdit* edit : {globalBatch_, share_, beside_})
        edit->setEnabled(!running && possible);
    help_->setEnabled(!running);
    changes_->setEnabled(!running);
    bar_->setVisible(running);
    showParts();
    if (model_->rowCount() == 0)
        chart_->setPicture({}, emptyWords());
}

void FitPanel::setEnding()
{
    start_->setEnabled(false);
}

void FitPanel::showProgress(double share, const QString& words)
{
    showShare(*bar_, share);
    say(words);
}

void FitPanel::say(const QString& words, const QString& tip)
{
    if (words_->property("danger").toBool())
        setDanger(*words_, false);
    words_->setText(words);
    words_->setToolTip(tip.isEmpty() ? words : tip);
}

void FitPanel::showProblem(const QString& sentence)
{
    words_->setText(sentence);
    words_->setToolTip(sentence);
    setDanger(*words_, true);
    announce(*words_);
}

QString FitPanel::emptyWords() const
{
    if (!whyNot_.isEmpty())
        return whyNot_;
    return running_ ? tr("The first sizes are on the way")
                    : tr("Sizes that run on a card, with and without a plan, and the fastest. Start records this step "
                         "at other sizes.");
}

void FitPanel::showResult(const FitResultPtr& result, bool ofSequences)
{
    const QModelIndex current = table_->currentIndex();
    const std::optional<FitModel::RowIndex> before
        = current.isValid() ? std::optional(model_->rowAt(current)) : std::nullopt;
    model_->setResult(result);
    if (before)
        table_->setCurrentIndex(model_->indexOf(*before));
    for (const auto column : {FitModel::cardColumn, FitModel::sequenceColumn, FitModel::accumulationColumn,
                              FitModel::samplesColumn, FitModel::tokensColumn})
        table_->setColumnHidden(column, !model_->hasValues(column));
    chart_->setPicture(result ? fitPicture(*result, ofSequences) : FitPicture(), emptyWords());
    showLegend();
    showParts();
}

void FitPanel::showChanges(const ChangesPtr& changes)
{
    showsChanges_ = changes != nullptr;
    changesModel_->setChanges(changes);
    if (showsChanges_ && changesModel_->rowCount() > 0)
        changes_->setCurrentIndex(changesModel_->index(0, 0));
    showParts();
}

void FitPanel::showLegend()
{
    legend_->setEntries(fitLegend(chart_->picture(), Theme::of(*this)));
}

} // namespace headroom
