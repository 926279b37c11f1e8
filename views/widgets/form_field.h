// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QString>
#include <QWidget>

class QLabel;
class QHBoxLayout;

namespace headroom {

/// One field of a form: its name above, the editor, and below it a line that says what is expected, or what is wrong.
/// The line keeps its place when it is empty, so that nothing moves while the user types.
class FormField : public QWidget
{
    Q_OBJECT
public:
    /// `editor` becomes a child, named for screen readers after the label.
    FormField(const QString& label, QWidget* editor, const QString& hint = {}, QWidget* parent = nullptr);

    void addBeside(QWidget* widget); ///< a button after the editor
    void setHint(const QString& hint);
    void setProblem(const QString& problem); ///< in place of the hint; empty: there is none
    QString problem() const { return problem_; }

private:
    void showLine();

    QWidget* editor_;
    QHBoxLayout* row_;
    QLabel* line_;
    QString hint_;
    QString problem_;
};

} // namespace headroom
