// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/widgets/message_bar.h"

#include "views/theme/styles.h"

#include <QHBoxLayout>
#include <QKeyEvent>
#include <QLabel>
#include <QMenu>
#include <QProgressBar>
#include <QPushButton>
#include <QScreen>
#include <QScrollArea>
#include <QScrollBar>
#include <QToolButton>
#include <QVBoxLayout>
#include <QWidgetAction>

#include <utility>

namespace headroom {
namespace {

constexpr int doneMs = 8000;

} // namespace

MessageBar::MessageBar(QWidget* parent)
    : QFrame(parent)
    , mark_(makeLabel(this))
    , message_(makeLabel(this))
    , progress_(makeProgressBar(this))
    , action_(new QPushButton(this))
    , close_(makeCloseButton(tr("Close this message"), this))
{
    setObjectName(QStringLiteral("messageBar"));
    mark_->setProperty("strong", true);
    message_->setObjectName(QStringLiteral("message"));
    message_->setWordWrap(true);
    message_->setTextInteractionFlags(Qt::TextSelectableByMouse);
    progress_->setFixedWidth(160);
    action_->setObjectName(QStringLiteral("messageAction"));

    auto* row = makeLayout<QHBoxLayout>(this, {12, 6, 6, 6}, 10);
    row->addWidget(mark_);
    row->addWidget(message_, 1);
    row->addWidget(progress_);
    row->addWidget(action_);
    row->addWidget(close_);

    leaving_.setSingleShot(true);
    leaving_.setInterval(doneMs);
    connect(&leaving_, &QTimer::timeout, this, &MessageBar::dismiss);
    connect(close_, &QToolButton::clicked, this, &MessageBar::dismiss);
    connect(action_, &QPushButton::clicked, this, [this] {
        const auto run = run_; // the action may show another message
        if (run)
            run();
    });
    dismiss();
}

void MessageBar::showError(const QString& message, Action action)
{
    show(MessageType::error, message, std::move(action));
}

void MessageBar::showNote(const QString& message, Action action)
{
    show(MessageType::note, message, std::move(action));
}

void MessageBar::succeed()
{
    if (type_ == MessageType::error && acting_)
        dismiss();
}

void MessageBar::showDone(const QString& message, Action action)
{
    show(MessageType::done, message, std::move(action));
    leaving_.start();
}

void MessageBar::showProgress(const QString& message, double share, Action action)
{
    show(MessageType::progress, message, std::move(action));
    showShare(*progress_, share);
}

void MessageBar::dismiss()
{
    leaving_.stop();
    type_ = MessageType::none;
    run_ = nullptr;
    hide();
}

QString MessageBar::message() const
{
    return message_->text();
}

void MessageBar::show(MessageType type, const QString& message, Action action)
{
    leaving_.stop();
    acting_ = false;
    const bool another = type != type_;
    type_ = type;
    message_->setText(message);
    progress_->setVisible(type == MessageType::progress);
    action_->setVisible(!action.text.isEmpty());
    action_->setText(action.text);
    run_ = std::move(action.run);
    close_->setVisible(type != MessageType::progress);
    if (another)
        showState();
    setAccessibleName(message);
    QFrame::show();
    if (another)
        announce(*this);
}

void MessageBar::showState()
{
    const bool error = type_ == MessageType::error;
    mark_->setText(error || type_ == MessageType::note ? QStringLiteral("!")
                       : type_ == MessageType::done    ? QStringLiteral("✓")
                                                       : QString());
    mark_->setVisible(!mark_->text().isEmpty());
    setStyleProperty(*this, "message", error ? QStringLiteral("error") : QStringLiteral("plain"));
}

void MessageBar::keyPressEvent(QKeyEvent* event)
{
    if (event->key() == Qt::Key_Escape && type_ != MessageType::progress)
        dismiss();
    else
        QFrame::keyPressEvent(event);
}

namespace {

constexpr int popupWidth = 420;
constexpr int remarkMargin = 12;
constexpr qsizetype mostInTip = 5;
constexpr double mostOfScreen = 0.6; // of its height, before the popup scrolls

} // namespace

RemarksButton::RemarksButton(QWidget* parent)
    : QToolButton(parent)
    , sentences_(new QWidgetAction(this))
{
    setProperty("framed", true);
    setFocusPolicy(Qt::TabFocus);
    setPopupMode(QToolButton::InstantPopup);
    setMenu(new QMenu(this));
    hide();
}

void RemarksButton::setSentences(const QString& text, const QString& title, const QStringList& sentences,
                                 const QStringList& links)
{
    setVisible(!sentences.isEmpty());
    setText(text);
    QStringList all;
    for (qsizetype row = 0; row < sentences.size(); ++row) {
        all << sentences[row];
        if (!links.value(row).isEmpty())
            all << links[row];
    }
    setToolTip(sentences.size() <= mostInTip ? all.join(QLatin1Char('\n')) : title); // a tool tip cannot scroll
    setAccessibleDescription(all.join(QStringLiteral(". ")));
    menu()->setObjectName(objectName() + QStringLiteral("Popup"));
    auto* page = new QWidget;
    auto* column = makeLayout<QVBoxLayout>(page, {remarkMargin, remarkMargin - 4, remarkMargin, remarkMargin - 4}, 8);
    const auto add = [&](const QString& line) {
        auto* label = makeLabel(nullptr, line);
        label->setWordWrap(true);
        label->setFixedWidth(popupWidth);
        column->addWidget(label);
        return label;
    };
    add(title)->setProperty("second", true);
    for (qsizetype row = 0; row < sentences.size(); ++row) {
        QLabel* label = add(sentences[row]);
        label->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
        label->setAccessibleName(sentences[row]);
        if (links.value(row).isEmpty())
            continue;
        QLabel* link = add({});
        setLink(*link, links[row]);
        connect(link, &QLabel::linkActivated, this, [this, row] {
            menu()->close();
            Q_EMIT linkClicked(row);
        });
    }
    auto* scroll = new QScrollArea;
    scroll->setProperty("card", true); // a menu has no border of its own
    page->setBackgroundRole(QPalette::Base);
    page->setAutoFillBackground(true);
    scroll->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    scroll->setWidget(page);
    page->adjustSize();
    const int most = static_cast<int>(mostOfScreen * screen()->availableSize().height());
    const bool scrolls = page->height() > most;
    const int bar = scrolls ? scroll->verticalScrollBar()->sizeHint().width() : 0;
    const int frame = 2 * scroll->frameWidth();
    scroll->setFixedSize(page->width() + bar + frame, (scrolls ? most : page->height()) + frame);
    // A menu requests an action's widget when the action is added.
    menu()->removeAction(sentences_);
    sentences_->setDefaultWidget(scroll);
    menu()->addAction(sentences_);
}

} // namespace headroom
