// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/recording/record_sheet.h"

#include "app/recording/model_form.h"
#include "app/recording/script_form.h"
#include "views/widgets/elided_label.h"

#include <QClipboard>
#include <QFileInfo>
#include <QFrame>
#include <QGuiApplication>
#include <QHBoxLayout>
#include <QLabel>
#include <QPushButton>
#include <QVBoxLayout>

namespace headroom {
namespace {

constexpr int sheetWidth = 640;
constexpr int margin = 22;
constexpr int commandColumns = 70;

} // namespace

RecordSheet::RecordSheet(const RecordRequest& request, const QString& recorder, const QString& destination,
                         QWidget* parent)
    : QDialog(parent)
    , request_(request)
    , recorder_(recorder)
    , destination_(destination)
    , command_(new QLabel)
    , record_(new QPushButton(tr("Record")))
{
    setObjectName(QStringLiteral("recordSheet"));
    const QString name = QFileInfo(request.model).fileName();
    setWindowTitle(tr("Record %1").arg(name));
    auto* column = new QVBoxLayout(this);
    column->setContentsMargins(margin, margin - 4, margin, margin - 4);
    column->setSpacing(4);
    auto* title = new ElidedLabel(Qt::ElideMiddle, this);
    title->setText(windowTitle());
    title->setProperty("selection", true);
    auto* words = new QLabel(
        request.isScript() ? tr("Runs the script unmodified until its second training step, with “cuda” standing for "
                                "the simulated GPU, and opens that step.")
                           : tr("Runs two training steps of the model on a simulated GPU and opens the second."),
        this);
    words->setWordWrap(true);
    words->setProperty("second", true);
    column->addWidget(title);
    column->addWidget(words);
    column->addSpacing(12);
    if (request.isScript())
        column->addWidget(script_ = new ScriptForm(this));
    else
        column->addWidget(model_ = new ModelForm(this));
    column->addSpacing(10);
    column->addWidget(makeCommand());
    column->addSpacing(10);
    column->addStretch(1);
    column->addWidget(makeButtons());
    setMinimumWidth(sheetWidth);
    if (script_) {
        connect(script_, &ScriptForm::changed, this, &RecordSheet::take);
        script_->show(request_);
        script_->firstField()->setFocus();
    } else {
        connect(model_, &ModelForm::changed, this, &RecordSheet::take);
        model_->show(request_);
        model_->firstField()->setFocus();
    }
    take();
}

QWidget* RecordSheet::makeCommand()
{
    auto* box = new QFrame(this);
    box->setProperty("card", true);
    auto* row = new QHBoxLayout(box);
    row->setContentsMargins(12, 8, 8, 8);
    command_->setObjectName(QStringLiteral("recordCommand"));
    command_->setProperty("code", true);
    command_->setAccessibleName(tr("Command that records"));
    command_->setTextFormat(Qt::PlainText);
    command_->setWordWrap(true);
    command_->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
    auto* copy = new QPushButton(tr("&Copy"), box);
    copy->setObjectName(QStringLiteral("copyCommand"));
    copy->setAutoDefault(false);
    copy->setToolTip(tr("Copy the command to the clipboard"));
    connect(copy, &QPushButton::clicked, this,
            [this] { QGuiApplication::clipboard()->setText(words_.join(QLatin1Char(' '))); });
    row->addWidget(command_, 1);
    row->addWidget(copy, 0, Qt::AlignTop);
    return box;
}

QWidget* RecordSheet::makeButtons()
{
    auto* buttons = new QWidget(this);
    auto* row = new QHBoxLayout(buttons);
    row->setContentsMargins(0, 0, 0, 0);
    auto* reset = new QPushButton(tr("Reset"), buttons);
    reset->setObjectName(QStringLiteral("resetChoices"));
    reset->setToolTip(tr("What Headroom would choose"));
    reset->setAutoDefault(false);
    auto* cancel = new QPushButton(tr("Cancel"), buttons);
    cancel->setAutoDefault(false);
    record_->setObjectName(QStringLiteral("recordButton"));
    record_->setDefault(true);
    connect(reset, &QPushButton::clicked, this, &RecordSheet::resetChoices);
    connect(cancel, &QPushButton::clicked, this, &QDialog::reject);
    connect(record_, &QPushButton::clicked, this, &QDialog::accept);
    row->addWidget(reset);
    row->addStretch(1);
    row->addWidget(cancel);
    row->addWidget(record_);
    return buttons;
}

void RecordSheet::resetChoices()
{
    RecordRequest fresh;
    fresh.kind = request_.kind;
    fresh.model = request_.model;
    fresh.workingFolder = QFileInfo(request_.model).absolutePath();
    if (script_)
        script_->show(fresh);
    else
        model_->show(fresh);
    take();
}

void RecordSheet::take()
{
    if (script_)
        script_->read(request_);
    else
        model_->read(request_);
    const auto found = problems(request_);
    if (script_)
        script_->setProblems(found);
    else
        model_->setProblems(found);
    record_->setEnabled(found.isEmpty() && (!script_ || script_->canRecord()));
    words_ = commandWords(recordCommand(request_, recorder_), destination_);
    command_->setText(foldedLine(words_, commandColumns));
}

} // namespace headroom
