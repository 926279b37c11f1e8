// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/recording/record_request.h"

#include <QDialog>

class QLabel;
class QPushButton;

namespace headroom {

class RecordForm;

/// The dialog with the options for recording a model or a training script, and the command that will run. Problems are
/// shown beside the fields during typing; the recording can start only without problems.
class RecordDialog : public QDialog
{
    Q_OBJECT
public:
    /// `destination` is the step file that is written.
    RecordDialog(const RecordRequest& request, const QString& recorder, const QString& destination,
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
    RecordForm* form_;
    QStringList words_; ///< words of the command
    QLabel* command_;
    QPushButton* record_;
};

} // namespace headroom
