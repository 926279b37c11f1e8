// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/recording/record_dialog.h"

#include "app/recording/record_form.h"
#include "views/theme/styles.h"
#include "views/widgets/labels.h"

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

constexpr int dialogWidth = 640;
constexpr int margin = 22;
constexpr int commandColumns = 70;

} // namespace

RecordDialog::RecordDialog(const RecordRequest& request, const QString& recorder, const QString& destination,
                           QWidget* parent)
    : QDialog(parent)
    , request_(request)
    , recorder_(recorder)
    , destination_(destination)
    , command_(makeLabel(nullptr))
    , record_(new QPushButton(tr("Record")))
{
    setObjectName(QStringLiteral("recordSheet"));
    const QString name = QFileInfo(request.model).fileName();
    setWindowTitle(tr("Record %1").arg(name));
    auto* column = makeLayout<QVBoxLayout>(this, {margin, margin - 4, margin, margin - 4}, 4);
    auto* title = new ElidedLabel(ElidedLabel::Elide::middle, this);
    title->setText(windowTitle());
    title->setProperty("selection", true);
    auto* words = makeLabel(
        this,
        request.isScript() ? tr("Runs the script unmodified until its second training step, with “cuda” standing for "
                                "the simulated GPU, and opens that step.")
                           : tr("Runs two training steps of the model on a simulated GPU and opens the second."));
    words->setWordWrap(true);
    words->setProperty("second", true);
    column->addWidget(title);
    column->addWidget(words);
    column->addSpacing(12);
    if (request.isScript())
        form_ = new ScriptForm(this);
    else
        form_ = new ModelForm(this);
    column->addWidget(form_);
    column->addSpacing(10);
    column->addWidget(makeCommand());
    column->addSpacing(10);
    column->addStretch(1);
    column->addWidget(makeButtons());
    setMinimumWidth(dialogWidth);
    connect(form_, &RecordForm::changed, this, &RecordDialog::take);
    form_->show(request_);
    form_->firstField()->setFocus();
    take();
}

QWidget* RecordDialog::makeCommand()
{
    QFrame* box = makeCard(this);
    auto* row = makeLayout<QHBoxLayout>(box, {12, 8, 8, 8});
    command_->setObjectName(QStringLiteral("recordCommand"));
    command_->setProperty("code", true);
    command_->setAccessibleName(tr("Command that records"));
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

QWidget* RecordDialog::makeButtons()
{
    auto* buttons = new QWidget(this);
    auto* row = makeLayout<QHBoxLayout>(buttons, {0, 0, 0, 0});
    auto* reset = new QPushButton(tr("Reset"), buttons);
    reset->setObjectName(QStringLiteral("resetChoices"));
    reset->setToolTip(tr("What Headroom would choose"));
    reset->setAutoDefault(false);
    auto* cancel = new QPushButton(tr("Cancel"), buttons);
    cancel->setAutoDefault(false);
    record_->setObjectName(QStringLiteral("recordButton"));
    record_->setDefault(true);
    connect(reset, &QPushButton::clicked, this, &RecordDialog::resetChoices);
    connect(cancel, &QPushButton::clicked, this, &QDialog::reject);
    connect(record_, &QPushButton::clicked, this, &QDialog::accept);
    row->addWidget(reset);
    row->addStretch(1);
    row->addWidget(cancel);
    row->addWidget(record_);
    return buttons;
}

void RecordDialog::resetChoices()
{
    RecordRequest fresh;
    fresh.kind = request_.kind;
    fresh.model = request_.model;
    fresh.workingFolder = QFileInfo(request_.model).absolutePath();
    form_->show(fresh);
    take();
}

void RecordDialog::take()
{
    form_->read(request_);
    const auto found = problems(request_);
    form_->setProblems(found);
    record_->setEnabled(found.isEmpty() && form_->canRecord());
    words_ = commandWords(recordCommand(request_, recorder_), destination_);
    command_->setText(foldedLine(words_, commandColumns));
}

} // namespace headroom
