// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QString>
#include <QWidget>

class QLabel;
class QHBoxLayout;

namespace headroom {

/// A field of a form: label, editor, and below a line with a hint or a problem. An empty line has the same height, so
/// that nothing moves while the user types.
class FormField : public QWidget
{
    Q_OBJECT
public:
    /// `editor` becomes a child with the label as accessible name.
    FormField(const QString& label, QWidget* editor, const QString& hint = {}, QWidget* parent = nullptr);

    void addBeside(QWidget* widget); ///< adds a button after the editor
    void setHint(const QString& hint);
    void setProblem(const QString& problem); ///< shown in place of the hint; empty: no problem
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
