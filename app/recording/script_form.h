// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/recording/interpreters.h"
#include "app/recording/record_request.h"

#include <QTimer>
#include <QWidget>

class QComboBox;
class QLabel;
class QLineEdit;
class QPushButton;

namespace headroom {

class FormField;

/// The form for recording a training script: interpreter, arguments, working folder and more. It checks whether the
/// interpreter can record.
class ScriptForm : public QWidget
{
    Q_OBJECT
public:
    explicit ScriptForm(QWidget* parent = nullptr);

    void show(const RecordRequest& request);
    void read(RecordRequest& request) const;
    void setProblems(const QMap<RecordField, QString>& problems);
    bool canRecord() const; ///< whether the interpreter can record, as far as known
    QWidget* firstField() const;

Q_SIGNALS:
    void changed();

private:
    void layOut();
    void wire();
    void askInterpreter();
    void showFacts(const InterpreterFacts& facts);
    void browseInterpreter();
    void browseFolder();
    QString interpreter() const;

    QComboBox* interpreter_;
    QLineEdit* arguments_;
    QLineEdit* workingFolder_;
    QComboBox* gpu_;
    QLineEdit* steps_;
    QLineEdit* processes_;
    QLineEdit* nodes_;
    QLineEdit* rank_;
    QPushButton* browseInterpreter_;
    QPushButton* browseFolder_;
    QWidget* install_;
    QLabel* installCommand_;
    FormField* interpreterField_;
    FormField* argumentsField_;
    FormField* folderField_;
    FormField* stepsField_;
    FormField* processesField_;
    FormField* nodesField_;
    FormField* rankField_;
    InterpreterProbe probe_;
    QTimer askSoon_; ///< runs while the user is typing
    InterpreterFacts facts_; ///< of the last interpreter that answered
};

} // namespace headroom
