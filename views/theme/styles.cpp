// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/theme/styles.h"

#include <QAbstractItemView>
#include <QAccessible>
#include <QActionGroup>
#include <QApplication>
#include <QDBusConnection>
#include <QDBusMessage>
#include <QDBusPendingCallWatcher>
#include <QDBusPendingReply>
#include <QDBusVariant>
#include <QFrame>
#include <QGuiApplication>
#include <QHeaderView>
#include <QHelpEvent>
#include <QLabel>
#include <QMenu>
#include <QPalette>
#include <QProgressBar>
#include <QScrollArea>
#include <QStyle>
#include <QToolButton>
#include <QToolTip>

#include <utility>

namespace headroom {
namespace {

constexpr int progressSteps = 1000;

} // namespace

QLabel* makeLabel(QWidget* parent, const QString& text)
{
    auto* label = new QLabel(text, parent);
    label->setTextFormat(Qt::PlainText);
    return label;
}

QLabel* makeLabel(const QString& text, const char* style, QWidget* parent)
{
    auto* label = makeLabel(parent, text);
    label->setProperty(style, true);
    return label;
}

void setLink(QLabel& label, const QString& text)
{
    label.setTextFormat(Qt::RichText);
    label.setTextInteractionFlags(Qt::LinksAccessibleByMouse | Qt::LinksAccessibleByKeyboard);
    label.setText(QStringLiteral("<a href=\"#\">%1</a>").arg(text.toHtmlEscaped()));
    label.setAccessibleName(text);
    label.setToolTip(QObject::tr("Open in the editor"));
}

QFrame* makeCard(QWidget* parent)
{
    auto* card = new QFrame(parent);
    card->setProperty("card", true);
    return card;
}

namespace {

/// As wide as the content at least.
class VerticalScroll : public QScrollArea
{
public:
    using QScrollArea::QScrollArea;
    QSize minimumSizeHint() const override
    {
        return {widget()->minimumSizeHint().width(), QScrollArea::minimumSizeHint().height()};
    }
};

} // namespace

QScrollArea* makeScrolling(QWidget* content, QWidget* parent)
{
    auto* scroll = new VerticalScroll(parent);
    scroll->setWidget(content);
    scroll->setWidgetResizable(true);
    scroll->setFrameShape(QFrame::NoFrame);
    scroll->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    scroll->setFocusPolicy(Qt::NoFocus);
    scroll->viewport()->setAutoFillBackground(false);
    content->setAutoFillBackground(false); // set by setWidget()
    return scroll;
}

QToolButton* makeSegment(const QString& text, QWidget* parent)
{
    auto* button = new QToolButton(parent);
    button->setText(text);
    button->setCheckable(true);
    button->setProperty("segment", true);
    return button;
}

QToolButton* makeCloseButton(const QString& tip, QWidget* parent)
{
    auto* button = new QToolButton(parent);
    button->setText(QStringLiteral("×"));
    button->setAutoRaise(true);
    button->setToolTip(tip);
    button->setAccessibleName(tip);
    return button;
}

QAction* addChoice(QMenu& menu, const QString& text, const QString& note, bool isChosen,
                   const std::function<void()>& choose)
{
    QAction* action = menu.addAction(note.isEmpty() ? text : text + u'\t' + note);
    action->setCheckable(true);
    action->setChecked(isChosen);
    auto* group = menu.findChild<QActionGroup*>(QString(), Qt::FindDirectChildrenOnly);
    (group ? group : new QActionGroup(&menu))->addAction(action); // drawn as a choice of several, not as a check box
    if (!isChosen)
        QObject::connect(action, &QAction::triggered, &menu, choose);
    return action;
}

QProgressBar* makeProgressBar(QWidget* parent)
{
    auto* bar = new QProgressBar(parent);
    bar->setFixedHeight(6);
    bar->setTextVisible(false);
    return bar;
}

void showShare(QProgressBar& bar, double share)
{
    bar.setRange(0, share < 0 ? 0 : progressSteps);
    if (share >= 0)
        bar.setValue(static_cast<int>(share * progressSteps));
}

void setStyleProperty(QWidget& widget, const char* property, const QVariant& value)
{
    widget.setProperty(property, value);
    widget.style()->unpolish(&widget);
    widget.style()->polish(&widget);
}

void setDanger(QLabel& label, bool danger)
{
    label.setProperty("second", !danger);
    setStyleProperty(label, "danger", danger);
}

void announce(QWidget& widget)
{
    if (!QAccessible::isActive())
        return;
    QAccessibleEvent event(&widget, QAccessible::Alert);
    QAccessible::updateAccessibility(&event);
}

WrappedToolTips::WrappedToolTips(QObject* parent)
    : QObject(parent)
{
    qApp->installEventFilter(this);
}

QString WrappedToolTips::wrapped(const QString& tip)
{
    QStringList lines;
    for (const QString& paragraph : tip.split(u'\n')) {
        QString line;
        for (const QString& word : paragraph.split(u' ')) {
            if (!line.isEmpty() && line.size() + word.size() >= tipColumns)
                lines << std::exchange(line, {});
            line += line.isEmpty() ? word : u' ' + word;
        }
        lines << line;
    }
    const QString text = lines.join(u'\n');
    return Qt::mightBeRichText(text) ? Qt::convertFromPlainText(text) : text;
}

void WrappedToolTips::show(const QPoint& place, const QString& tip, QWidget* widget)
{
    QToolTip::showText(place, wrapped(tip), widget);
}

namespace {

/// The tool tip of a widget at a place, or of the item there.
QString toolTipAt(const QWidget& widget, const QPoint& place)
{
    const auto* view = qobject_cast<const QAbstractItemView*>(widget.parentWidget());
    if (!widget.toolTip().isEmpty() || !view || view->viewport() != &widget || qobject_cast<const QHeaderView*>(view))
        return widget.toolTip();
    return view->indexAt(place).data(Qt::ToolTipRole).toString();
}

} // namespace

bool WrappedToolTips::eventFilter(QObject* watched, QEvent* event)
{
    auto* const widget = event->type() == QEvent::ToolTip ? qobject_cast<QWidget*>(watched) : nullptr;
    if (!widget)
        return false;
    const auto* const help = static_cast<QHelpEvent*>(event);
    const QString tip = toolTipAt(*widget, help->pos());
    if (tip.isEmpty() || tip == wrapped(tip))
        return false;
    show(help->globalPos(), tip, widget);
    return true;
}

namespace {

const auto portal = QStringLiteral("org.freedesktop.portal.Desktop");
const auto portalPath = QStringLiteral("/org/freedesktop/portal/desktop");
const auto settings = QStringLiteral("org.freedesktop.portal.Settings");
const auto appearance = QStringLiteral("org.freedesktop.appearance");
const auto colorScheme = QStringLiteral("color-scheme");

// Read() wraps its answer in one variant more than SettingChanged does.
QVariant unwrapped(QVariant value)
{
    while (value.canConvert<QDBusVariant>())
        value = value.value<QDBusVariant>().variant();
    return value;
}

} // namespace

DesktopColours::DesktopColours(QObject* parent)
    : QObject(parent)
    , platformDark_(QGuiApplication::palette().color(QPalette::Window).lightness() < 128)
    , dark_(platformDark_)
{
    auto bus = QDBusConnection::sessionBus();
    if (!bus.isConnected())
        return;
    bus.connect(portal, portalPath, settings, QStringLiteral("SettingChanged"), this,
                SLOT(settingChanged(QString, QString, QDBusVariant)));
    auto request = QDBusMessage::createMethodCall(portal, portalPath, settings, QStringLiteral("Read"));
    request << appearance << colorScheme;
    auto* answer = new QDBusPendingCallWatcher(bus.asyncCall(request), this);
    connect(answer, &QDBusPendingCallWatcher::finished, this, [this, answer] {
        const QDBusPendingReply<QVariant> reply = *answer;
        if (reply.isValid())
            setScheme(unwrapped(reply.value()).toUInt());
        answer->deleteLater();
    });
}

void DesktopColours::settingChanged(const QString& group, const QString& key, const QDBusVariant& value)
{
    if (group == appearance && key == colorScheme)
        setScheme(unwrapped(value.variant()).toUInt());
}

void DesktopColours::setScheme(uint scheme)
{
    // 1: dark, 2: light, 0: no preference.
    const bool dark = scheme == 1 || (scheme != 2 && platformDark_);
    if (dark == dark_)
        return;
    dark_ = dark;
    Q_EMIT changed(dark_);
}

} // namespace headroom
