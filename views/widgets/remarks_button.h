// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QStringList>
#include <QToolButton>

class QWidgetAction;

namespace headroom {

/// "2 remarks": pressed, by the mouse or a key, it shows each of them as a sentence, in what the recorded step is other
/// than on the card. Hidden while there are none.
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
