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

/// The sizes that a step can be run at again, as fields: changing one asks for the step at the new size. While that is
/// recorded, says so; afterwards, what the peak is and was. Takes no room when the model has no such size.
class SizeFields : public QWidget
{
    Q_OBJECT
public:
    explicit SizeFields(QWidget* parent = nullptr);

    void setDimensions(const std::vector<StepInfo::Dimension>& dimensions); ///< and shows their values
    void setRecording(double share, const QString& text); ///< "batch 64"; share < 0: not known
    void setResult(const QString& text); ///< in place of the progress; empty: nothing
    QString result() const;
    bool recording() const; ///< progress is shown

    QSpinBox* field(const QString& name) const; ///< null: there is none

Q_SIGNALS:
    void sizeWanted(const QString& dimension, qint64 value);
    void cancelWanted();

protected:
    void keyPressEvent(QKeyEvent* event) override;

private:
    void showValues();

    std::vector<StepInfo::Dimension> dimensions_;
    std::vector<QLabel*> names_; ///< as dimensions_
    std::vector<QSpinBox*> fields_; ///< as dimensions_
    QWidget* busy_;
    QProgressBar* progress_;
    QLabel* busyText_;
    QToolButton* cancel_;
    QLabel* result_;
};

} // namespace headroom
