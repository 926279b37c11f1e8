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

/// A combo box of the GPUs that can be simulated.
QComboBox* makeGpuChoice(QWidget* parent);
void chooseData(QComboBox* box, const QString& data); ///< selects the entry with `data`, else the first

/// The form for recording a model: the options of training that the file does not contain.
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
