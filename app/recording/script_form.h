// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/recording/interpreters.h"
#include "app/recording/record_form.h"

#include <QTimer>

class QLabel;

namespace headroom {

/// The form for recording a training script: interpreter, arguments, working folder and more. It asks the interpreter
/// whether it can record.
class ScriptForm : public RecordForm
{
    Q_OBJECT
public:
    explicit ScriptForm(QWidget* parent = nullptr);

    void show(const RecordRequest& request) override;
    void read(RecordRequest& request) const override;
    void setProblems(const QMap<RecordField, QString>& problems) override;
    bool canRecord() const override; ///< whether the interpreter can record, as far as known

private:
    QWidget* makeInstall();
    void askInterpreter();
    void showFacts(const InterpreterFacts& facts);
    void browseInterpreter();
    void browseFolder();
    QString interpreter() const;

    QComboBox* interpreter_;
    QLineEdit* workingFolder_;
    QWidget* install_;
    QLabel* installCommand_;
    FormField* interpreterField_;
    InterpreterProbe probe_;
    QTimer typing_; ///< runs while the user is typing
    InterpreterFacts facts_; ///< facts of the last interpreter that answered
};

} // namespace headroom
