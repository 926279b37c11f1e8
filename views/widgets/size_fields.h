// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/trace/step_trace.h"

#include <QString>
#include <QWidget>

#include <vector>

class QLabel;
class QProgressBar;
class QSpinBox;
class QToolButton;

namespace headroom {

/// Fields for the sizes at which the step can be recorded again. A change emits sizeWanted(). The widget shows the
/// progress of the new recording, and then its peak and the previous one. It takes no space if the model has no such
/// size.
class SizeFields : public QWidget
{
    Q_OBJECT
public:
    explicit SizeFields(QWidget* parent = nullptr);

    void setDimensions(const std::vector<StepInfo::Dimension>& dimensions); ///< makes the fields and shows the values
    void setRecording(double share, const QString& text); ///< `text`: "batch 64"; share < 0: not known
    void setResult(const QString& text); ///< shown in place of the progress; empty: nothing
    QString result() const;
    bool recording() const; ///< progress is shown

    QSpinBox* field(const QString& name) const; ///< null: no such field

Q_SIGNALS:
    void sizeWanted(const QString& dimension, qint64 value);
    void cancelWanted();

protected:
    void keyPressEvent(QKeyEvent* event) override;

private:
    void showValues();

    std::vector<StepInfo::Dimension> dimensions_;
    std::vector<QLabel*> names_; ///< indexed as dimensions_
    std::vector<QSpinBox*> fields_; ///< indexed as dimensions_
    QWidget* busy_;
    QProgressBar* progress_;
    QLabel* busyText_;
    QToolButton* cancel_;
    QLabel* result_;
};

} // namespace headroom
