// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QMargins>
#include <QObject>
#include <QString>
#include <QVariant>
#include <QWheelEvent>
#include <QWidget>

#include <functional>

class QAction;
class QDBusVariant;
class QFrame;
class QLabel;
class QMenu;
class QProgressBar;
class QScrollArea;
class QToolButton;

namespace headroom {

// Widgets with a style of Theme::styleSheet(), which they ask for by dynamic properties. `parent` may be null: a layout
// sets it.

/// A label of plain text: tags in a user's names are shown as typed.
QLabel* makeLabel(QWidget* parent, const QString& text = {});
/// The same with one of the style sheet's styles for text: "second", "strong", "title", …
QLabel* makeLabel(const QString& text, const char* style, QWidget* parent = nullptr);

/// Makes a label a link with a plain text, for the mouse and the keyboard.
void setLink(QLabel& label, const QString& text);

/// The background and border of a part of the window.
QFrame* makeCard(QWidget* parent = nullptr);

/// An area without a frame that scrolls `content` up and down where the content has less than its least height.
QScrollArea* makeScrolling(QWidget* content, QWidget* parent);

/// A flat button that can be checked.
QToolButton* makeSegment(const QString& text, QWidget* parent);

/// The button with which a message or a bar is closed; `tip` is also its accessible name.
QToolButton* makeCloseButton(const QString& tip, QWidget* parent);

/// Adds an entry to a menu of which one is chosen, with a note beside it, which may be empty. Another entry than the
/// chosen one calls `choose`.
QAction* addChoice(QMenu& menu, const QString& text, const QString& note, bool isChosen,
                   const std::function<void()>& choose);

/// A thin progress bar without text.
QProgressBar* makeProgressBar(QWidget* parent);

/// Shows a share of work done, 0 to 1; < 0: not known.
void showShare(QProgressBar& bar, double share);

/// Sets the property and applies the style sheet again: Qt reads properties only then.
void setStyleProperty(QWidget& widget, const char* property, const QVariant& value);

/// Shows a text in the colour of errors, or in the second text colour.
void setDanger(QLabel& label, bool danger);

/// Enables a widget or an action if `whyNot` is empty, else disables the part and says why in the tool tip.
template <class Part>
void setPossible(Part& part, const QString& whyNot)
{
    static constexpr auto ownTip = "ownTip"; // the tool tip while the part is enabled
    if (!part.property(ownTip).isValid())
        part.setProperty(ownTip, part.toolTip());
    part.setEnabled(whyNot.isEmpty());
    part.setToolTip(whyNot.isEmpty() ? part.property(ownTip).toString() : whyNot);
}

/// Tells screen readers that the widget shows a message.
void announce(QWidget& widget);

/// Lays long tool tips of all widgets and items out in lines of `tipColumns` characters: Qt shows a plain text in one
/// line, which does not fit on the screen. Tool tips are text: tags in a user's names are shown as typed.
class WrappedToolTips : public QObject
{
public:
    static constexpr int tipColumns = 90;

    explicit WrappedToolTips(QObject* parent); ///< works while the object lives

    static QString wrapped(const QString& tip);
    /// QToolTip::showText() of a text, as the tool tips of widgets are shown.
    static void show(const QPoint& place, const QString& tip, QWidget* widget);

protected:
    bool eventFilter(QObject* watched, QEvent* event) override;
};

/// A layout with its margins; `spacing` < 0: that of the style.
template <class Layout>
Layout* makeLayout(QWidget* parent, const QMargins& margins, int spacing = -1)
{
    auto* layout = new Layout(parent);
    layout->setContentsMargins(margins);
    layout->setSpacing(spacing);
    return layout;
}

/// An input widget whose value the wheel changes only while it has the focus, not while the user scrolls past.
template <class Input>
class Calm : public Input
{
public:
    explicit Calm(QWidget* parent)
        : Input(parent)
    {
        this->setFocusPolicy(Qt::StrongFocus);
    }

protected:
    void wheelEvent(QWheelEvent* event) override
    {
        if (this->hasFocus())
            Input::wheelEvent(event);
        else
            event->ignore();
    }
};

/// The desktop's preference for light or dark: the color-scheme of the XDG settings portal if there is one, else the
/// lightness of Qt's palette at start. Qt 6.4 has no QStyleHints::colorScheme().
class DesktopColours : public QObject
{
    Q_OBJECT
public:
    explicit DesktopColours(QObject* parent = nullptr);

    bool isDark() const noexcept { return dark_; }

Q_SIGNALS:
    void changed(bool dark);

private Q_SLOTS:
    void settingChanged(const QString& group, const QString& key, const QDBusVariant& value);

private:
    void setScheme(uint scheme);

    bool platformDark_ = false;
    bool dark_ = false;
};

} // namespace headroom
