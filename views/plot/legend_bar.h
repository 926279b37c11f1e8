// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "views/plot/legend.h"

#include <QWidget>

namespace headroom {

/// The head of a plot: its title and legend, as high as the rows that its width asks for.
class LegendBar : public QWidget
{
    Q_OBJECT
public:
    explicit LegendBar(QWidget* parent = nullptr);

    void setTitle(const QString& title);
    void setEntries(std::vector<LegendEntry> entries);

    QSize sizeHint() const override;
    bool hasHeightForWidth() const override { return true; }
    int heightForWidth(int width) const override;

protected:
    void paintEvent(QPaintEvent* event) override;

private:
    Legend laidOut(int width) const;

    QString title_;
    std::vector<LegendEntry> entries_;
};

} // namespace headroom
