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

protected:
    void resizeEvent(QResizeEvent* event) override;
    void paintEvent(QPaintEvent* event) override;

private:
    Legend laidOut() const;
    void fitHeight();

    QString title_;
    std::vector<LegendEntry> entries_;
};

} // namespace headroom
