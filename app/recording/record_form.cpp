// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/recording/record_form.h"

#include "core/base/bytes.h"
#include "core/cost/roofline.h"
#include "views/theme/looks.h"
#include "views/widgets/form_field.h"

#include <QComboBox>
#include <QGridLayout>
#include <QLineEdit>

#include <algorithm>

namespace headroom {

RecordForm::RecordForm(int columns, QWidget* parent)
    : QWidget(parent)
    , grid_(makeLayout<QGridLayout>(this, {0, 0, 0, 0}))
{
    grid_->setHorizontalSpacing(12);
    grid_->setVerticalSpacing(6);
    for (int column = 0; column < columns; ++column)
        grid_->setColumnStretch(column, 1);
}

QLineEdit* RecordForm::makeEdit(const char* name, const QString& placeholder, Member member)
{
    auto* edit = new QLineEdit(this);
    edit->setObjectName(QString::fromLatin1(name));
    edit->setPlaceholderText(placeholder);
    connect(edit, &QLineEdit::textChanged, this, &RecordForm::changed);
    edits_.emplace_back(edit, member);
    return edit;
}

QComboBox* RecordForm::makeChoice(const char* name, Member member,
                                  std::initializer_list<std::pair<QString, const char*>> entries)
{
    auto* box = new QComboBox(this);
    box->setObjectName(QString::fromLatin1(name));
    for (const auto& [text, value] : entries)
        box->addItem(text, QString::fromLatin1(value));
    connect(box, &QComboBox::currentIndexChanged, this, &RecordForm::changed);
    choices_.emplace_back(box, member);
    return box;
}

QComboBox* RecordForm::makeGpuChoice()
{
    QComboBox* box = makeChoice("gpu", &RecordRequest::gpu, {});
    for (const DeviceSpec& spec : deviceSpecs())
        box->addItem(QStringLiteral("%1, %2").arg(QString::fromStdString(spec.title),
                                                  QString::fromStdString(formatBytes(spec.memory, 1))),
                     QString::fromStdString(spec.name));
    return box;
}

FormField* RecordForm::add(const QString& label, QWidget* editor, int row, int column, int span, const QString& hint)
{
    auto* field = new FormField(label, editor, hint, this);
    grid_->addWidget(field, row, column, 1, span);
    return field;
}

FormField* RecordForm::add(const QString& label, QWidget* editor, int row, int column, int span, RecordField field,
                           const QString& hint)
{
    return fields_.emplace_back(field, add(label, editor, row, column, span, hint)).second;
}

void RecordForm::show(const RecordRequest& request)
{
    const QSignalBlocker quiet(this);
    for (const auto& [edit, member] : edits_)
        edit->setText(request.*member);
    for (const auto& [box, member] : choices_) {
        const bool unset = member == &RecordRequest::gpu && request.gpu.isEmpty();
        box->setCurrentIndex(
            std::max(0, box->findData(unset ? QString::fromUtf8(defaultDeviceName) : request.*member)));
    }
}

void RecordForm::read(RecordRequest& request) const
{
    for (const auto& [edit, member] : edits_)
        request.*member = edit->text().trimmed();
    for (const auto& [box, member] : choices_)
        request.*member = box->currentData().toString();
}

void RecordForm::setProblems(const QMap<RecordField, QString>& problems)
{
    for (const auto& [field, shown] : fields_)
        shown->setProblem(problems.value(field));
}

} // namespace headroom
