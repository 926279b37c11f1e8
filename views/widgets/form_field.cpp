// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/widgets/form_field.h"

#include <QHBoxLayout>
#include <QLabel>
#include <QStyle>
#include <QVBoxLayout>

namespace headroom {

FormField::FormField(const QString& label, QWidget* editor, const QString& hint, QWidget* parent)
    : QWidget(parent)
    , editor_(editor)
    , row_(new QHBoxLayout)
    , line_(new QLabel(this))
    , hint_(hint)
{
    auto* name = new QLabel(label, this);
    name->setBuddy(editor);
    name->setProperty("strong", true);
    QString plain = label;
    editor->setAccessibleName(plain.remove(QLatin1Char('&')));
    line_->setProperty("caption", true);
    line_->setWordWrap(true);
    line_->setAlignment(Qt::AlignLeft | Qt::AlignTop);
    line_->setMinimumHeight(line_->fontMetrics().height() + 2);
    row_->setContentsMargins(0, 0, 0, 0);
    row_->setSpacing(6);
    row_->addWidget(editor, 1);
    auto* column = new QVBoxLayout(this);
    column->setContentsMargins(0, 0, 0, 0);
    column->setSpacing(4);
    column->addWidget(name);
    column->addLayout(row_);
    column->addWidget(line_);
    showLine();
}

void FormField::addBeside(QWidget* widget)
{
    row_->addWidget(widget);
}

void FormField::setHint(const QString& hint)
{
    hint_ = hint;
    showLine();
}

void FormField::setProblem(const QString& problem)
{
    if (problem_ == problem)
        return;
    problem_ = problem;
    showLine();
}

void FormField::showLine()
{
    line_->setText(problem_.isEmpty() ? hint_ : problem_);
    line_->setProperty("danger", !problem_.isEmpty());
    line_->setProperty("second", problem_.isEmpty());
    line_->style()->unpolish(line_);
    line_->style()->polish(line_);
    editor_->setAccessibleDescription(line_->text());
    editor_->setProperty("wrong", !problem_.isEmpty());
    editor_->style()->unpolish(editor_);
    editor_->style()->polish(editor_);
}

} // namespace headroom
