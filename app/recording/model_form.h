// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/recording/record_request.h"

#include <QWidget>

class QCheckBox;
class QComboBox;
class QLineEdit;

namespace headroom {

class FormField;

/// The cards that a simulation can stand for, by name.
QComboBox* makeGpuChoice(QWidget* parent);
void chooseData(QComboBox* box, const QString& data); ///< the first entry when there is none of that name

/// How a model is trained for the recording: what the file does not say.
class ModelForm : public QWidget
{
    Q_OBJECT
public:
    explicit ModelForm(QWidget* parent = nullptr);

    void show(const RecordRequest& request);
    void read(RecordRequest& request) const;
    void setProblems(const QMap<RecordField, QString>& problems);
    QWidget* firstField() const;

Q_SIGNALS:
    void changed();

private:
    void layOut();
    void wire();
    void showMomentum();

    QComboBox* gpu_;
    QLineEdit* batch_;
    QLineEdit* sequence_;
    QComboBox* precision_;
    QComboBox* optimizer_;
    QLineEdit* momentum_;
    QComboBox* loss_;
    QComboBox* lifetimes_;
    QCheckBox* holdOutput_;
    QLineEdit* settings_;
    FormField* batchField_;
    FormField* sequenceField_;
    FormField* momentumField_;
    FormField* lifetimesField_;
    FormField* settingsField_;
};

} // namespace headroom
