// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/recording/record_request.h"

#include <QDialog>

class QLabel;
class QPushButton;

namespace headroom {

class ModelForm;
class ScriptForm;

/// Asks how a model or a training script is recorded, and shows the command that will do it. Says what is wrong beside
/// each field while it is typed; nothing can be started until all is right.
class RecordSheet : public QDialog
{
    Q_OBJECT
public:
    /// `destination`: the step file that the recording is written to.
    RecordSheet(const RecordRequest& request, const QString& recorder, const QString& destination,
                QWidget* parent = nullptr);

    const RecordRequest& request() const noexcept { return request_; }

private:
    QWidget* makeCommand();
    QWidget* makeButtons();
    void resetChoices();
    void take();

    RecordRequest request_;
    QString recorder_;
    QString destination_;
    ModelForm* model_ = nullptr; ///< one of the two is there
    ScriptForm* script_ = nullptr;
    QStringList words_; ///< of the command
    QLabel* command_;
    QPushButton* record_;
};

} // namespace headroom
