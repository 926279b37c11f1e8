// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/recording/record_form.h"

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
