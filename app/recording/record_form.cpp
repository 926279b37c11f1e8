// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/recording/record_form.h"

#include "core/base/bytes.h"
#include "core/cost/roofline.h"
#include "views/theme/styles.h"
#include "views/widgets/form_field.h"

#include <QCheckBox>
#include <QClipboard>
#include <QComboBox>
#include <QDir>
#include <QFileDialog>
#include <QFileInfo>
#include <QFrame>
#include <QGridLayout>
#include <QGuiApplication>
#include <QLabel>
#include <QLineEdit>
#include <QPushButton>

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

ModelForm::ModelForm(QWidget* parent)
    : RecordForm(6, parent)
{
    // In the order of reading, for Tab.
    QComboBox* gpu = makeGpuChoice();
    QLineEdit* batch = makeEdit("batch", tr("the model's own"), &RecordRequest::batch);
    QLineEdit* sequence = makeEdit("sequence", tr("the model's own"), &RecordRequest::sequence);
    QComboBox* optimizer = makeChoice(
        "optimizer", &RecordRequest::optimizer,
        {{QStringLiteral("Adam"), "adam"}, {QStringLiteral("AdamW"), "adamw"}, {QStringLiteral("SGD"), "sgd"}});
    QLineEdit* momentum = makeEdit("momentum", tr("none"), &RecordRequest::momentum);
    QComboBox* precision = makeChoice("precision", &RecordRequest::precision,
                                      {{tr("the model's own"), ""},
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
                     {{tr("until the module's forward returns"), "frame"}, {tr("until the last use"), "graph"}});
    QLineEdit* settings = makeEdit("settings", tr("KEY=VALUE …"), &RecordRequest::settings);
    holdOutput_ = new QCheckBox(tr("The training loop keeps the &output until the next forward"), this);
    holdOutput_->setObjectName(QStringLiteral("holdOutput"));
    holdOutput_->setToolTip(tr("As with `output = model(x)` in a loop: the last output stays alive during forward"));
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

namespace {

constexpr int typingMs = 300;

} // namespace

ScriptForm::ScriptForm(QWidget* parent)
    : RecordForm(3, parent)
    , interpreter_(new QComboBox(this))
{
    interpreter_->setObjectName(QStringLiteral("interpreter"));
    interpreter_->setEditable(true);
    interpreter_->setInsertPolicy(QComboBox::NoInsert);
    interpreter_->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
    grid()->addWidget(makeInstall(), 1, 0, 1, 3); // here, since Tab follows the order in which widgets are made
    QLineEdit* arguments = makeEdit("arguments", tr("none, for example --batch-size 32 --config gpt2.yaml"),
                                    &RecordRequest::scriptArguments);
    workingFolder_ = makeEdit("workingFolder", {}, &RecordRequest::workingFolder);
    QComboBox* gpu = makeGpuChoice();
    QLineEdit* steps = makeEdit("steps", tr("2"), &RecordRequest::steps);
    QLineEdit* processes = makeEdit("processes", tr("none: one GPU"), &RecordRequest::processes);
    QLineEdit* nodes = makeEdit("nodes", QStringLiteral("1"), &RecordRequest::nodes);
    QLineEdit* rank = makeEdit("rank", QStringLiteral("0"), &RecordRequest::rank);
    const auto addBrowse = [this](FormField* field, const QString& name, void (ScriptForm::*browse)()) {
        auto* button = new QPushButton(tr("Browse…"), this);
        button->setAccessibleName(name);
        connect(button, &QPushButton::clicked, this, browse);
        field->addBeside(button);
    };

    interpreterField_ = add(tr("&Python"), interpreter_, 0, 0, 3);
    addBrowse(interpreterField_, tr("Browse for a Python"), &ScriptForm::browseInterpreter);
    add(tr("&Arguments of the script"), arguments, 2, 0, 3, RecordField::scriptArguments);
    addBrowse(add(tr("&Working folder"), workingFolder_, 3, 0, 3, RecordField::workingFolder),
              tr("Browse for the working folder"), &ScriptForm::browseFolder);
    add(tr("Simulated &GPU"), gpu, 4, 0, 2, tr("What “cuda” stands for in the script"));
    add(tr("&Steps"), steps, 4, 2, 1, RecordField::steps, tr("The last is recorded"));
    add(tr("P&rocesses per node"), processes, 5, 0, 1, RecordField::processes, tr("As for torchrun"));
    add(tr("&Nodes"), nodes, 5, 1, 1, RecordField::nodes, tr("Machines of the job"));
    add(tr("Ran&k"), rank, 5, 2, 1, RecordField::rank, tr("The recorded process"));
    setFirstField(arguments);

    typing_.setSingleShot(true);
    typing_.setInterval(typingMs);
    connect(interpreter_, &QComboBox::currentTextChanged, this, [this] {
        typing_.start();
        Q_EMIT changed();
    });
    connect(workingFolder_, &QLineEdit::textChanged, &typing_, qOverload<>(&QTimer::start));
    connect(&typing_, &QTimer::timeout, this, &ScriptForm::askInterpreter);
    connect(&probe_, &InterpreterProbe::answered, this, &ScriptForm::showFacts);
}

/// The command that installs the package, shown for an interpreter without it.
QWidget* ScriptForm::makeInstall()
{
    install_ = makeCard(this);
    install_->setObjectName(QStringLiteral("install"));
    installCommand_ = makeLabel({}, "code", install_);
    installCommand_->setObjectName(QStringLiteral("installCommand"));
    installCommand_->setWordWrap(true);
    installCommand_->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
    installCommand_->setAccessibleName(tr("Command that installs the package torch-headroom"));
    auto* copy = new QPushButton(tr("Copy"), install_);
    copy->setAccessibleName(tr("Copy the command that installs the package torch-headroom"));
    connect(copy, &QPushButton::clicked, this,
            [this] { QGuiApplication::clipboard()->setText(installCommand_->text()); });
    auto* again = new QPushButton(tr("Look again"), install_);
    again->setToolTip(tr("Ask this Python for the package again"));
    connect(again, &QPushButton::clicked, this, &ScriptForm::askInterpreter);
    auto* row = makeLayout<QHBoxLayout>(install_, {10, 6, 6, 6});
    row->addWidget(installCommand_, 1);
    row->addWidget(copy);
    row->addWidget(again);
    install_->hide();
    return install_;
}

void ScriptForm::show(const RecordRequest& request)
{
    {
        const QSignalBlocker quiet(this);
        interpreter_->clear();
        for (const Interpreter& found : findInterpreters(request.model, request.interpreter)) {
            interpreter_->addItem(found.path);
            interpreter_->setItemData(interpreter_->count() - 1, found.origin, Qt::ToolTipRole);
        }
        if (!request.interpreter.isEmpty())
            interpreter_->setEditText(request.interpreter);
    }
    RecordForm::show(request);
    typing_.stop();
    askInterpreter();
}

void ScriptForm::read(RecordRequest& request) const
{
    RecordForm::read(request);
    request.interpreter = interpreter();
}

QString ScriptForm::interpreter() const
{
    const QString text = interpreter_->currentText().trimmed();
    return text.startsWith(QLatin1String("~/")) ? QDir::homePath() + text.mid(1) : text;
}

void ScriptForm::setProblems(const QMap<RecordField, QString>& problems)
{
    RecordForm::setProblems(problems);
    const QString wrong = problems.value(RecordField::interpreter);
    const bool known = facts_.path == interpreter();
    interpreterField_->setProblem(!wrong.isEmpty() ? wrong : known ? facts_.problem() : QString());
    interpreterField_->setHint(known ? facts_.text() : tr("Asking this Python for torch …"));
    install_->setVisible(wrong.isEmpty() && known && !facts_.torch.isEmpty() && !facts_.problem().isEmpty());
}

bool ScriptForm::canRecord() const
{
    return facts_.path != interpreter() || facts_.problem().isEmpty();
}

void ScriptForm::askInterpreter()
{
    const QFileInfo program(interpreter());
    if (program.isFile() && program.isExecutable())
        probe_.ask(interpreter(), workingFolder_->text().trimmed());
}

void ScriptForm::showFacts(const InterpreterFacts& facts)
{
    facts_ = facts;
    installCommand_->setText(installCommand(facts.path));
    Q_EMIT changed();
}

void ScriptForm::browseInterpreter()
{
    const QString path = QFileDialog::getOpenFileName(this, tr("The Python that runs the script"),
                                                      QFileInfo(interpreter()).absolutePath());
    if (!path.isEmpty())
        interpreter_->setEditText(path);
}

void ScriptForm::browseFolder()
{
    const QString path
        = QFileDialog::getExistingDirectory(this, tr("Working folder of the script"), workingFolder_->text().trimmed());
    if (!path.isEmpty())
        workingFolder_->setText(path);
}

} // namespace headroom
