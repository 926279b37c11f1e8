// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/recording/interpreters.h"
#include "app/recording/record_request.h"

#include <QMap>
#include <QTimer>
#include <QWidget>

#include <initializer_list>
#include <utility>
#include <vector>

class QComboBox;
class QGridLayout;
class QLineEdit;

namespace headroom {

class FormField;

/// Base of the forms for recording a model and a training script: fields in a grid, each with a member of the request
/// and a line for the problem.
class RecordForm : public QWidget
{
    Q_OBJECT
public:
    virtual void show(const RecordRequest& request);
    virtual void read(RecordRequest& request) const;
    virtual void setProblems(const QMap<RecordField, QString>& problems);
    virtual bool canRecord() const { return true; } ///< false: a problem that is not of the request
    QWidget* firstField() const noexcept { return firstField_; } ///< the field that the user fills in first

Q_SIGNALS:
    void changed();

protected:
    using Member = QString RecordRequest::*;

    RecordForm(int columns, QWidget* parent);

    QLineEdit* makeEdit(const char* name, const QString& placeholder, Member member);
    /// A choice among `entries`, each with a value in the request.
    QComboBox* makeChoice(const char* name, Member member,
                          std::initializer_list<std::pair<QString, const char*>> entries);
    QComboBox* makeGpuChoice();

    FormField* add(const QString& label, QWidget* editor, int row, int column, int span, const QString& hint = {});
    FormField* add(const QString& label, QWidget* editor, int row, int column, int span, RecordField field,
                   const QString& hint = {}); ///< shows the field's problem, too
    void setFirstField(QWidget* field) noexcept { firstField_ = field; }
    QGridLayout* grid() const noexcept { return grid_; }

private:
    QGridLayout* grid_;
    QWidget* firstField_ = nullptr;
    std::vector<std::pair<QLineEdit*, Member>> edits_;
    std::vector<std::pair<QComboBox*, Member>> choices_;
    std::vector<std::pair<RecordField, FormField*>> fields_;
};

} // namespace headroom

class QCheckBox;

namespace headroom {

/// The form for recording a model: the options of training that the file does not contain.
class ModelForm : public RecordForm
{
    Q_OBJECT
public:
    explicit ModelForm(QWidget* parent = nullptr);

    void show(const RecordRequest& request) override;
    void read(RecordRequest& request) const override;

private:
    QCheckBox* holdOutput_;
    FormField* lifetimesField_;
};

} // namespace headroom

class QLabel;

namespace headroom {

/// The form for recording a training script: interpreter, arguments, working folder and more. The form asks the
/// interpreter whether recording is possible.
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
