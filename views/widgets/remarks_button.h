// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QStringList>
#include <QToolButton>

class QWidgetAction;

namespace headroom {

/// The button "2 remarks": its popup says in one sentence for each remark how the recorded step differs from the same
/// step on the GPU. Hidden while there are none.
class RemarksButton : public QToolButton
{
    Q_OBJECT
public:
    explicit RemarksButton(QWidget* parent = nullptr);

    void setRemarks(const QStringList& remarks);

private:
    QWidgetAction* sentences_;
};

} // namespace headroom
