// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/recording/model_form.h"

#include "views/widgets/form_field.h"

#include <QCheckBox>
#include <QComboBox>
#include <QGridLayout>
#include <QLineEdit>

namespace headroom {

ModelForm::ModelForm(QWidget* parent)
    : RecordForm(6, parent)
{
    // In the order in which they are read, which is that of Tab.
    QComboBox* gpu = makeGpuChoice();
    QLineEdit* batch = makeEdit("batch", tr("the model's own"), &RecordRequest::batch);
    QLineEdit* sequence = makeEdit("sequence", tr("the model's own"), &RecordRequest::sequence);
    QComboBox* optimizer = makeChoice(
        "optimizer", &RecordRequest::optimizer,
        {{QStringLiteral("Adam"), "adam"}, {QStringLiteral("AdamW"), "adamw"}, {QStringLiteral("SGD"), "sgd"}});
    QLineEdit* momentum = makeEdit("momentum", tr("none"), &RecordRequest::momentum);
    QComboBox* precision = makeChoice("precision", &RecordRequest::precision,
                                      {{tr("as the model has it"), ""},
                                       {tr("bfloat16 autocast, float32 weights"), "autocast"},
                                       {tr("all in float32"), "float32"},
                                       {tr("all in bfloat16"), "bfloat16"},
                                       {tr("all in float16"), "float16"}});
    QComboBox* loss = makeChoice("loss", &RecordRequest::loss,
                                 {{tr("sum of the output"), "sum"},
                                  {tr("mean of the output"), "mean"},
                                  {tr("the output is the loss"), "output"}});
    QComboBox* lifetimes
        = makeChoice("lifetimes", &RecordRequest::lifetimes,
                     {{tr("until the module's forward returns"), "frame"}, {tr("until their last use"), "graph"}});
    QLineEdit* settings = makeEdit("settings", tr("KEY=VALUE …"), &RecordRequest::settings);
    holdOutput_ = new QCheckBox(tr("The training loop keeps the &output until the next forward"), this);
    holdOutput_->setObjectName(QStringLiteral("holdOutput"));
    holdOutput_->setToolTip(tr("As `output = model(x)` in a loop does: one more output is alive during forward"));
    connect(holdOutput_, &QCheckBox::toggled, this, &ModelForm::changed);

    add(tr("Simulated &GPU"), gpu, 0, 0, 6);
    add(tr("&Batch"), batch, 1, 0, 3, RecordField::batch);
    add(tr("&Sequence"), sequence, 1, 3, 3, RecordField::sequence);
    add(tr("O&ptimizer"), optimizer, 2, 0, 2);
    FormField* momentumField = add(tr("&Momentum"), momentum, 2, 2, 1, RecordField::momentum);
    add(tr("P&recision"), precision, 2, 3, 3);
    add(tr("&Loss"), loss, 3, 0, 3);
    lifetimesField_ = add(tr("&Values of the graph live"), lifetimes, 3, 3, 3);
    add(tr("E&xtra settings"), settings, 4, 0, 6, RecordField::settings);
    grid()->addWidget(holdOutput_, 5, 0, 1, 6);
    const auto showMomentum = [optimizer, momentumField] {
        momentumField->setEnabled(optimizer->currentData().toString() == QLatin1String("sgd"));
    };
    connect(optimizer, &QComboBox::currentIndexChanged, this, showMomentum);
    showMomentum();
    setFirstField(gpu);
}

void ModelForm::show(const RecordRequest& request)
{
    RecordForm::show(request);
    const QSignalBlocker quiet(this);
    holdOutput_->setChecked(request.holdOutput);
    lifetimesField_->setVisible(request.kind == SourceKind::exported);
}

void ModelForm::read(RecordRequest& request) const
{
    RecordForm::read(request);
    request.holdOutput = holdOutput_->isChecked();
}

} // namespace headroom
