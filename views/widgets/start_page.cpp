// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/widgets/start_page.h"

#include "views/theme/styles.h"
#include "views/theme/theme.h"

#include <QClipboard>
#include <QCoreApplication>
#include <QDir>
#include <QFileInfo>
#include <QGuiApplication>
#include <QHBoxLayout>
#include <QLabel>
#include <QPainter>
#include <QPushButton>
#include <QScrollArea>
#include <QVBoxLayout>

#include <utility>

namespace headroom {
namespace {

constexpr int buttonHeight = 46;
constexpr int textMargin = 14;

QString demoText(const char* text)
{
    return QCoreApplication::translate("Demos", text);
}

} // namespace

std::vector<DemoModel> demoModels()
{
    const auto words = [](const char* line) { return QString::fromLatin1(line).split(QLatin1Char(' ')); };
    // No demo fits the demo's card, so that there is something to plan.
    return {
        {demoText("Transformer, 24 layers of width 1024"),
         demoText("batch 16 of 1024 tokens, AdamW: 32 GiB on a 24 GB RTX 4090"),
         words("demo:transformer --batch 16 --seq 1024 --optimizer adamw --gpu rtx-4090-24gb --set n_layers=24 "
               "--set dim=1024 --set n_heads=16 --set vocab_size=50304 --set max_seq_len=1024"),
         QStringLiteral("transformer")},
        {demoText("ResNet-50"), demoText("batch 256 of 224 × 224 images, SGD: 21 GiB on a 16 GB T4"),
         words("demo:resnet --batch 256 --optimizer sgd --gpu t4-16gb --set depth=50"), QStringLiteral("resnet50")},
        {demoText("MLP, 24 blocks of width 2048"),
         demoText("batch 256 of 256 vectors, AdamW: 43 GiB on a 24 GB RTX 4090"),
         words("demo:mlp --batch 256 --seq 256 --optimizer adamw --gpu rtx-4090-24gb --set n_layers=24 "
               "--set dim=2048"),
         QStringLiteral("mlp")},
    };
}

RowButton::RowButton(const QString& title, const QString& detail, const QString& verb, QWidget* parent)
    : QAbstractButton(parent)
    , detail_(detail)
    , verb_(verb)
{
    setText(title);
    setAccessibleDescription(detail);
    setAttribute(Qt::WA_Hover);
    setFocusPolicy(Qt::StrongFocus);
    setCursor(Qt::PointingHandCursor);
    setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
}

QSize RowButton::sizeHint() const
{
    return {480, buttonHeight};
}

void RowButton::paintEvent(QPaintEvent*)
{
    const Theme& theme = Theme::of(*this);
    QPainter painter(this);
    painter.setRenderHint(QPainter::Antialiasing);
    const bool hovered = underMouse() && isEnabled();
    painter.setPen(QPen(hasFocus() ? theme.text : theme.line, 1));
    painter.setBrush(isDown() ? theme.selected : hovered ? theme.hover : theme.card);
    painter.drawRoundedRect(QRectF(rect()).adjusted(0.5, 0.5, -0.5, -0.5), 6, 6);

    painter.setFont(theme.bodyStrong);
    const int verbWidth = painter.fontMetrics().horizontalAdvance(verb_);
    painter.setPen(isEnabled() ? theme.text : theme.secondText);
    painter.drawText(rect().adjusted(textMargin, 0, -textMargin, 0), Qt::AlignRight | Qt::AlignVCenter, verb_);
    const int width_ = width() - 3 * textMargin - verbWidth;
    const QRect top(textMargin, 6, width_, height() / 2 - 6);
    const QRect bottom(textMargin, height() / 2, width_, height() / 2 - 6);
    painter.drawText(top, Qt::AlignLeft | Qt::AlignVCenter,
                     painter.fontMetrics().elidedText(text(), Qt::ElideMiddle, width_));
    painter.setFont(theme.caption);
    painter.setPen(theme.secondText);
    painter.drawText(bottom, Qt::AlignLeft | Qt::AlignVCenter,
                     painter.fontMetrics().elidedText(detail_, Qt::ElideMiddle, width_));
}

namespace {

constexpr int columnWidth = 680;
const auto ownCommand = QStringLiteral("python -m torch_headroom.record train.py");

/// A dashed frame that invites to drop a file; the whole window accepts files.
class DropZone : public QWidget
{
public:
    using QWidget::QWidget;

protected:
    void paintEvent(QPaintEvent*) override
    {
        const Theme& theme = Theme::of(*this);
        QPainter painter(this);
        painter.setRenderHint(QPainter::Antialiasing);
        painter.setPen(QPen(theme.secondText, 1.2, Qt::DashLine));
        painter.setBrush(theme.card);
        painter.drawRoundedRect(QRectF(rect()).adjusted(1, 1, -1, -1), 8, 8);
    }
};

void clear(QVBoxLayout* layout)
{
    while (QLayoutItem* item = layout->takeAt(0)) {
        delete item->widget();
        delete item;
    }
}

QString shortFolder(const QString& path)
{
    QString folder = QFileInfo(path).absolutePath();
    if (folder.startsWith(QDir::homePath()))
        folder.replace(0, QDir::homePath().size(), QStringLiteral("~"));
    return folder;
}

} // namespace

StartPage::StartPage(QWidget* parent)
    : QWidget(parent)
    , title_(makeLabel(this, tr("Where does the memory go, and what does fitting cost?")))
    , demoRows_(new QVBoxLayout)
    , recentRows_(new QVBoxLayout)
    , demos_(new QWidget(this))
{
    setObjectName(QStringLiteral("startPage"));
    title_->setProperty("headline", true);
    title_->setWordWrap(true);
    auto* column = new QVBoxLayout;
    column->setSpacing(8);
    column->addStretch(2);
    column->addWidget(title_);
    column->addSpacing(12);
    column->addWidget(dropZone_ = makeDropZone());
    column->addSpacing(18);
    column->addWidget(makeLabel(tr("Record your own training step"), "title", this));
    column->addWidget(makeOwnStep());
    column->addSpacing(18);
    column->addWidget(makeLabel(tr("Or record a demo model now, on a simulated GPU"), "title", this));
    demos_->setLayout(demoRows_);
    demoRows_->setContentsMargins(0, 0, 0, 0);
    demoRows_->setSpacing(6);
    column->addWidget(demos_);
    column->addSpacing(18);
    column->addWidget(recentTitle_ = makeLabel(tr("Opened last"), "title", this));
    recentRows_->setSpacing(6);
    column->addLayout(recentRows_);
    column->addStretch(3);

    auto* middle = new QWidget;
    middle->setLayout(column);
    middle->setMaximumWidth(columnWidth);
    auto* page = new QWidget;
    auto* row = new QHBoxLayout(page);
    row->addStretch(1);
    row->addWidget(middle, 100);
    row->addStretch(1);
    auto* scroll = new QScrollArea(this);
    scroll->setWidgetResizable(true);
    scroll->setFrameShape(QFrame::NoFrame);
    scroll->setWidget(page);
    scroll->viewport()->setAutoFillBackground(false);
    page->setAutoFillBackground(false);
    auto* whole = makeLayout<QVBoxLayout>(this, {0, 0, 0, 0});
    whole->addWidget(scroll);
    setRecentFiles({});
}

QWidget* StartPage::makeDropZone()
{
    auto* zone = new DropZone(this);
    auto* row = makeLayout<QHBoxLayout>(zone, {20, 22, 20, 22});
    auto* words
        = makeLabel(zone,
                    tr("Drop a training script (.py), a model (.pt2, TorchScript .pt), a recorded step (.hrs), a "
                       "memory snapshot (.pickle) or a trace of torch.profiler (.json) anywhere in this window."));
    words->setWordWrap(true);
    auto* open = new QPushButton(tr("Open…"), zone);
    open->setObjectName(QStringLiteral("openButton"));
    open->setDefault(true);
    connect(open, &QPushButton::clicked, this, &StartPage::openWanted);
    row->addWidget(words, 1);
    row->addWidget(open);
    return zone;
}

QWidget* StartPage::makeOwnStep()
{
    QFrame* card = makeCard(this);
    auto* column = makeLayout<QVBoxLayout>(card, {14, 12, 14, 12});
    auto* words = makeLabel(card,
                            tr("Your script runs unmodified until its second training step, with “cuda” standing for a "
                               "simulated GPU: no card is needed."));
    words->setWordWrap(true);
    auto* choose = new QPushButton(tr("Choose script…"), card);
    choose->setObjectName(QStringLiteral("scriptButton"));
    connect(choose, &QPushButton::clicked, this, &StartPage::scriptWanted);
    auto* top = new QHBoxLayout;
    top->addWidget(words, 1);
    top->addSpacing(12);
    top->addWidget(choose);
    auto* elsewhere = makeLabel(tr("On another machine:"), "second", card);
    auto* command = makeLabel(card, ownCommand);
    command->setObjectName(QStringLiteral("command"));
    command->setProperty("code", true);
    command->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
    auto* copy = new QPushButton(tr("Copy"), card);
    copy->setToolTip(tr("Copy the command to the clipboard"));
    connect(copy, &QPushButton::clicked, this, [] { QGuiApplication::clipboard()->setText(ownCommand); });
    auto* row = new QHBoxLayout;
    row->addWidget(elsewhere);
    row->addWidget(command, 1);
    row->addWidget(copy);
    column->addLayout(top);
    column->addLayout(row);
    return card;
}

void StartPage::setDemos(std::vector<DemoModel> demos)
{
    clear(demoRows_);
    for (DemoModel& demo : demos) {
        auto* row = new RowButton(demo.title, demo.detail, tr("Record"), demos_);
        row->setObjectName(QStringLiteral("demo-") + demo.name);
        demoRows_->addWidget(row);
        connect(row, &RowButton::clicked, this, [this, demo = std::move(demo)] { Q_EMIT demoWanted(demo); });
    }
}

void StartPage::setRecentFiles(const QStringList& paths)
{
    clear(recentRows_);
    recentTitle_->setVisible(!paths.isEmpty());
    for (const QString& path : paths) {
        auto* row = new RowButton(QFileInfo(path).fileName(), shortFolder(path), tr("Open"), this);
        recentRows_->addWidget(row);
        connect(row, &RowButton::clicked, this, [this, path] { Q_EMIT fileWanted(path); });
    }
}

void StartPage::setBusy(bool busy)
{
    demos_->setEnabled(!busy);
}

void StartPage::paintEvent(QPaintEvent*)
{
    QPainter(this).fillRect(rect(), Theme::of(*this).surface);
}

} // namespace headroom
