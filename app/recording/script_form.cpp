// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/recording/script_form.h"

#include "app/recording/model_form.h"
#include "core/cost/roofline.h"
#include "views/widgets/form_field.h"

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

namespace headroom {
namespace {

constexpr int spacing = 12;
constexpr int typingMs = 300;

} // namespace

ScriptForm::ScriptForm(QWidget* parent)
    : QWidget(parent)
    , interpreter_(new QComboBox(this))
    , arguments_(new QLineEdit(this))
    , workingFolder_(new QLineEdit(this))
    , gpu_(makeGpuChoice(this))
    , steps_(new QLineEdit(this))
    , processes_(new QLineEdit(this))
    , nodes_(new QLineEdit(this))
    , rank_(new QLineEdit(this))
    , browseInterpreter_(new QPushButton(tr("Browse…"), this))
    , browseFolder_(new QPushButton(tr("Browse…"), this))
    , install_(new QFrame(this))
    , installCommand_(new QLabel(install_))
{
    interpreter_->setObjectName(QStringLiteral("interpreter"));
    interpreter_->setEditable(true);
    interpreter_->setInsertPolicy(QComboBox::NoInsert);
    interpreter_->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
    arguments_->setObjectName(QStringLiteral("arguments"));
    arguments_->setPlaceholderText(tr("none, for example --batch-size 32 --config gpt2.yaml"));
    workingFolder_->setObjectName(QStringLiteral("workingFolder"));
    steps_->setObjectName(QStringLiteral("steps"));
    steps_->setPlaceholderText(tr("2"));
    processes_->setObjectName(QStringLiteral("processes"));
    processes_->setPlaceholderText(tr("none: one GPU"));
    nodes_->setObjectName(QStringLiteral("nodes"));
    nodes_->setPlaceholderText(QStringLiteral("1"));
    rank_->setObjectName(QStringLiteral("rank"));
    rank_->setPlaceholderText(QStringLiteral("0"));
    browseInterpreter_->setAccessibleName(tr("Browse for a Python"));
    browseFolder_->setAccessibleName(tr("Browse for the working folder"));
    install_->setObjectName(QStringLiteral("install"));
    installCommand_->setObjectName(QStringLiteral("installCommand"));
    askSoon_.setSingleShot(true);
    askSoon_.setInterval(typingMs);
    layOut();
    wire();
}

void ScriptForm::layOut()
{
    auto* grid = new QGridLayout(this);
    grid->setContentsMargins(0, 0, 0, 0);
    grid->setHorizontalSpacing(spacing);
    grid->setVerticalSpacing(6);
    interpreterField_ = new FormField(tr("&Python"), interpreter_, {}, this);
    interpreterField_->addBeside(browseInterpreter_);
    grid->addWidget(interpreterField_, 0, 0, 1, 3);

    install_->setProperty("card", true);
    auto* row = new QHBoxLayout(install_);
    row->setContentsMargins(10, 6, 6, 6);
    installCommand_->setProperty("code", true);
    installCommand_->setWordWrap(true);
    installCommand_->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
    installCommand_->setAccessibleName(tr("Command that installs the package torch-headroom"));
    auto* copy = new QPushButton(tr("Copy"), install_);
    copy->setAccessibleName(tr("Copy the command that installs the package torch-headroom"));
    connect(copy, &QPushButton::clicked, this,
            [this] { QGuiApplication::clipboard()->setText(installCommand_->text()); });
    auto* again = new QPushButton(tr("Look again"), install_);
    again->setToolTip(tr("Ask this Python once more whether it has the package"));
    connect(again, &QPushButton::clicked, this, &ScriptForm::askInterpreter);
    row->addWidget(installCommand_, 1);
    row->addWidget(copy);
    row->addWidget(again);
    install_->hide();
    grid->addWidget(install_, 1, 0, 1, 3);

    argumentsField_ = new FormField(tr("&Arguments of the script"), arguments_, {}, this);
    grid->addWidget(argumentsField_, 2, 0, 1, 3);
    folderField_ = new FormField(tr("&Working folder"), workingFolder_, {}, this);
    folderField_->addBeside(browseFolder_);
    grid->addWidget(folderField_, 3, 0, 1, 3);
    grid->addWidget(new FormField(tr("Simulated &GPU"), gpu_, tr("What “cuda” stands for in the script"), this), 4, 0,
                    1, 2);
    stepsField_ = new FormField(tr("&Steps"), steps_, tr("The last is recorded"), this);
    grid->addWidget(stepsField_, 4, 2);
    processesField_ = new FormField(tr("P&rocesses per node"), processes_, tr("As torchrun starts it"), this);
    grid->addWidget(processesField_, 5, 0);
    nodesField_ = new FormField(tr("&Nodes"), nodes_, tr("Machines of the job"), this);
    grid->addWidget(nodesField_, 5, 1);
    rankField_ = new FormField(tr("Ran&k"), rank_, tr("The one that is recorded"), this);
    grid->addWidget(rankField_, 5, 2);
    for (int column = 0; column < 3; ++column)
        grid->setColumnStretch(column, 1);
}

void ScriptForm::wire()
{
    for (QLineEdit* edit : {arguments_, workingFolder_, steps_, processes_, nodes_, rank_})
        connect(edit, &QLineEdit::textChanged, this, &ScriptForm::changed);
    connect(gpu_, &QComboBox::currentIndexChanged, this, &ScriptForm::changed);
    connect(interpreter_, &QComboBox::currentTextChanged, this, [this] {
        askSoon_.start();
        Q_EMIT changed();
    });
    connect(workingFolder_, &QLineEdit::textChanged, &askSoon_, qOverload<>(&QTimer::start));
    connect(&askSoon_, &QTimer::timeout, this, &ScriptForm::askInterpreter);
    connect(&probe_, &InterpreterProbe::answered, this, &ScriptForm::showFacts);
    connect(browseInterpreter_, &QPushButton::clicked, this, &ScriptForm::browseInterpreter);
    connect(browseFolder_, &QPushButton::clicked, this, &ScriptForm::browseFolder);
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
        arguments_->setText(request.scriptArguments);
        workingFolder_->setText(request.workingFolder);
        chooseData(gpu_, request.gpu.isEmpty() ? QString::fromUtf8(defaultDeviceName) : request.gpu);
        steps_->setText(request.steps);
        processes_->setText(request.processes);
        nodes_->setText(request.nodes);
        rank_->setText(request.rank);
    }
    askSoon_.stop();
    askInterpreter();
}

void ScriptForm::read(RecordRequest& request) const
{
    request.interpreter = interpreter();
    request.scriptArguments = arguments_->text().trimmed();
    request.workingFolder = workingFolder_->text().trimmed();
    request.gpu = gpu_->currentData().toString();
    request.steps = steps_->text().trimmed();
    request.processes = processes_->text().trimmed();
    request.nodes = nodes_->text().trimmed();
    request.rank = rank_->text().trimmed();
}

QString ScriptForm::interpreter() const
{
    const QString text = interpreter_->currentText().trimmed();
    return text.startsWith(QLatin1String("~/")) ? QDir::homePath() + text.mid(1) : text;
}

void ScriptForm::setProblems(const QMap<RecordField, QString>& problems)
{
    const QString wrong = problems.value(RecordField::interpreter);
    const bool known = facts_.path == interpreter();
    interpreterField_->setProblem(!wrong.isEmpty() ? wrong : known ? facts_.problem() : QString());
    interpreterField_->setHint(known ? facts_.text() : tr("Asking this Python what it has …"));
    install_->setVisible(wrong.isEmpty() && known && !facts_.torch.isEmpty() && !facts_.problem().isEmpty());
    argumentsField_->setProblem(problems.value(RecordField::scriptArguments));
    folderField_->setProblem(problems.value(RecordField::workingFolder));
    stepsField_->setProblem(problems.value(RecordField::steps));
    processesField_->setProblem(problems.value(RecordField::processes));
    nodesField_->setProblem(problems.value(RecordField::nodes));
    rankField_->setProblem(problems.value(RecordField::rank));
}

bool ScriptForm::canRecord() const
{
    return facts_.path != interpreter() || facts_.problem().isEmpty();
}

QWidget* ScriptForm::firstField() const
{
    return arguments_;
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
