// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/recording/model_form.h"

#include "core/base/bytes.h"
#include "core/cost/roofline.h"
#include "views/widgets/form_field.h"

#include <QCheckBox>
#include <QComboBox>
#include <QGridLayout>
#include <QLineEdit>

#include <utility>

namespace headroom {
namespace {

constexpr int spacing = 12;

QComboBox* makeChoice(std::initializer_list<std::pair<QString, const char*>> entries, QWidget* parent)
{
    auto* box = new QComboBox(parent);
    for (const auto& [text, data] : entries)
        box->addItem(text, QString::fromLatin1(data));
    return box;
}

QLineEdit* makeNumber(const QString& placeholder, QWidget* parent)
{
    auto* edit = new QLineEdit(parent);
    edit->setPlaceholderText(placeholder);
    return edit;
}

} // namespace

QComboBox* makeGpuChoice(QWidget* parent)
{
    auto* box = new QComboBox(parent);
    box->setObjectName(QStringLiteral("gpu"));
    for (const DeviceSpec& spec : deviceSpecs())
        box->addItem(QStringLiteral("%1, %2").arg(QString::fromStdString(spec.title),
                                                  QString::fromStdString(formatBytes(spec.memory, 1))),
                     QString::fromStdString(spec.name));
    return box;
}

void chooseData(QComboBox* box, const QString& data)
{
    box->setCurrentIndex(std::max(0, box->findData(data)));
}

ModelForm::ModelForm(QWidget* parent)
    : QWidget(parent)
    , gpu_(makeGpuChoice(this))
    , batch_(makeNumber(tr("the model's own"), this))
    , sequence_(makeNumber(tr("the model's own"), this))
    , precision_(makeChoice({{tr("as the model has it"), ""},
                             {tr("bfloat16 autocast, float32 weights"), "autocast"},
                             {tr("all in float32"), "float32"},
                             {tr("all in bfloat16"), "bfloat16"},
                             {tr("all in float16"), "float16"}},
                            this))
    , optimizer_(makeChoice(
          {{QStringLiteral("Adam"), "adam"}, {QStringLiteral("AdamW"), "adamw"}, {QStringLiteral("SGD"), "sgd"}}, this))
    , momentum_(makeNumber(tr("none"), this))
    , loss_(makeChoice({{tr("sum of the output"), "sum"},
                        {tr("mean of the output"), "mean"},
                        {tr("the output is the loss"), "output"}},
                       this))
    , lifetimes_(makeChoice(
          {{tr("until the module's forward returns"), "frame"}, {tr("until their last use"), "graph"}}, this))
    , holdOutput_(new QCheckBox(tr("The training loop keeps the &output until the next forward"), this))
    , settings_(makeNumber(tr("KEY=VALUE …"), this))
{
    for (const auto& [widget, name] :
         std::initializer_list<std::pair<QWidget*, const char*>>{{batch_, "batch"},
                                                                 {sequence_, "sequence"},
                                                                 {precision_, "precision"},
                                                                 {optimizer_, "optimizer"},
                                                                 {momentum_, "momentum"},
                                                                 {loss_, "loss"},
                                                                 {lifetimes_, "lifetimes"},
                                                                 {holdOutput_, "holdOutput"},
                                                                 {settings_, "settings"}})
        widget->setObjectName(QString::fromLatin1(name));
    holdOutput_->setToolTip(tr("As `output = model(x)` in a loop does: one more output is alive during forward"));
    layOut();
    wire();
}

void ModelForm::layOut()
{
    auto* grid = new QGridLayout(this);
    grid->setContentsMargins(0, 0, 0, 0);
    grid->setHorizontalSpacing(spacing);
    grid->setVerticalSpacing(6);
    const auto add
        = [this, grid](const QString& label, QWidget* editor, int row, int column, int span, const QString& hint = {}) {
              auto* field = new FormField(label, editor, hint, this);
              grid->addWidget(field, row, column, 1, span);
              return field;
          };
    add(tr("Simulated &GPU"), gpu_, 0, 0, 6);
    batchField_ = add(tr("&Batch"), batch_, 1, 0, 3);
    sequenceField_ = add(tr("&Sequence"), sequence_, 1, 3, 3);
    add(tr("O&ptimizer"), optimizer_, 2, 0, 2);
    momentumField_ = add(tr("&Momentum"), momentum_, 2, 2, 1);
    add(tr("P&recision"), precision_, 2, 3, 3);
    add(tr("&Loss"), loss_, 3, 0, 3);
    lifetimesField_ = add(tr("&Values of the graph live"), lifetimes_, 3, 3, 3);
    settingsField_ = add(tr("E&xtra settings"), settings_, 4, 0, 6);
    grid->addWidget(holdOutput_, 5, 0, 1, 6);
    for (int column = 0; column < 6; ++column)
        grid->setColumnStretch(column, 1);
}

void ModelForm::wire()
{
    for (QLineEdit* edit : {batch_, sequence_, momentum_, settings_})
        connect(edit, &QLineEdit::textChanged, this, &ModelForm::changed);
    for (QComboBox* box : {gpu_, precision_, optimizer_, loss_, lifetimes_})
        connect(box, &QComboBox::currentIndexChanged, this, &ModelForm::changed);
    connect(holdOutput_, &QCheckBox::toggled, this, &ModelForm::changed);
    connect(optimizer_, &QComboBox::currentIndexChanged, this, &ModelForm::showMomentum);
    showMomentum();
}

void ModelForm::showMomentum()
{
    momentumField_->setEnabled(optimizer_->currentData().toString() == QLatin1String("sgd"));
}

void ModelForm::show(const RecordRequest& request)
{
    const QSignalBlocker quiet(this);
    chooseData(gpu_, request.gpu.isEmpty() ? QString::fromUtf8(defaultDeviceName) : request.gpu);
    batch_->setText(request.batch);
    sequence_->setText(request.sequence);
    chooseData(precision_, request.precision);
    chooseData(optimizer_, request.optimizer);
    momentum_->setText(request.momentum);
    chooseData(loss_, request.loss);
    chooseData(lifetimes_, request.lifetimes);
    holdOutput_->setChecked(request.holdOutput);
    settings_->setText(request.settings);
    lifetimesField_->setVisible(request.kind == SourceKind::exported);
    showMomentum();
}

void ModelForm::read(RecordRequest& request) const
{
    request.gpu = gpu_->currentData().toString();
    request.batch = batch_->text().trimmed();
    request.sequence = sequence_->text().trimmed();
    request.precision = precision_->currentData().toString();
    request.optimizer = optimizer_->currentData().toString();
    request.momentum = momentum_->text().trimmed();
    request.loss = loss_->currentData().toString();
    request.lifetimes = lifetimes_->currentData().toString();
    request.holdOutput = holdOutput_->isChecked();
    request.settings = settings_->text().trimmed();
}

void ModelForm::setProblems(const QMap<RecordField, QString>& problems)
{
    batchField_->setProblem(problems.value(RecordField::batch));
    sequenceField_->setProblem(problems.value(RecordField::sequence));
    momentumField_->setProblem(problems.value(RecordField::momentum));
    settingsField_->setProblem(problems.value(RecordField::settings));
}

QWidget* ModelForm::firstField() const
{
    return gpu_;
}

} // namespace headroom
