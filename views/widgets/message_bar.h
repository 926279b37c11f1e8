// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QFrame>
#include <QStringList>
#include <QTimer>
#include <QToolButton>

#include <functional>

class QLabel;
class QProgressBar;
class QPushButton;
class QToolButton;
class QWidgetAction;

namespace headroom {

/// The line at the top of the window for errors, completed actions and progress, instead of modal dialogs. It shows
/// only the latest message.
class MessageBar : public QFrame
{
    Q_OBJECT
public:
    enum class MessageType { none, done, error, progress, note };

    struct Action
    {
        QString text; ///< empty: no button
        std::function<void()> run;
    };

    explicit MessageBar(QWidget* parent = nullptr);

    void showError(const QString& message,
                   Action action = {}); ///< stays until closed, or until another action succeeds
    void showNote(const QString& message, Action action = {}); ///< a fact about what is open; stays until closed
    void showDone(const QString& message, Action action = {}); ///< disappears after some seconds
    void showProgress(const QString& message, double share, Action action); ///< share < 0: not known
    void dismiss();
    void beginAction() noexcept { acting_ = true; } ///< the user asks for something after the message
    void succeed(); ///< an action succeeded: removes an error from before it began

    MessageType type() const noexcept { return type_; }
    QString message() const;
    QPushButton* actionButton() const noexcept { return action_; }

protected:
    void keyPressEvent(QKeyEvent* event) override;

private:
    void show(MessageType type, const QString& message, Action action);
    void showState();

    MessageType type_ = MessageType::none;
    QLabel* mark_;
    QLabel* message_;
    QProgressBar* progress_;
    QPushButton* action_;
    QToolButton* close_;
    std::function<void()> run_;
    bool acting_ = false; ///< an action began after the message was shown
    QTimer leaving_;
};

/// A button as "2 remarks": its popup has a sentence for each, such as how the recorded step differs from the same step
/// on the GPU. Hidden while there are none.
class RemarksButton : public QToolButton
{
    Q_OBJECT
public:
    explicit RemarksButton(QWidget* parent = nullptr);

    /// `text` of the button; `title` above the sentences. A sentence may have several lines.
    /// `links`: by sentence, the text of a link below the sentence; empty: none.
    void setSentences(const QString& text, const QString& title, const QStringList& sentences,
                      const QStringList& links = {});

Q_SIGNALS:
    void linkClicked(qsizetype sentence);

private:
    QWidgetAction* sentences_;
};

} // namespace headroom
