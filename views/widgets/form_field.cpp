// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/widgets/form_field.h"

#include "views/theme/styles.h"

#include <QHBoxLayout>
#include <QLabel>
#include <QVBoxLayout>

namespace headroom {

FormField::FormField(const QString& label, QWidget* editor, const QString& hint, QWidget* parent)
    : QWidget(parent)
    , editor_(editor)
    , row_(new QHBoxLayout)
    , line_(makeLabel({}, "caption", this))
    , hint_(hint)
{
    QLabel* name = makeLabel(label, "strong", this);
    name->setBuddy(editor);
    QString plain = label;
    editor->setAccessibleName(plain.remove(QLatin1Char('&')));
    line_->setWordWrap(true);
    line_->setAlignment(Qt::AlignLeft | Qt::AlignTop);
    line_->setMinimumHeight(line_->fontMetrics().height() + 2);
    row_->setContentsMargins(0, 0, 0, 0);
    row_->setSpacing(6);
    row_->addWidget(editor, 1);
    auto* column = makeLayout<QVBoxLayout>(this, {0, 0, 0, 0}, 4);
    column->addWidget(name);
    column->addLayout(row_);
    column->addWidget(line_);
    showLine();
}

void FormField::addBeside(QWidget* widget)
{
    row_->addWidget(widget);
    setTabOrder(editor_, widget);
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
    setDanger(*line_, !problem_.isEmpty());
    editor_->setAccessibleDescription(line_->text());
    setStyleProperty(*editor_, "wrong", !problem_.isEmpty());
}

} // namespace headroom
