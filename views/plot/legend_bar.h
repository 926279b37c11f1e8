// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "views/plot/legend.h"

#include <QWidget>

#include <array>

class QToolButton;

namespace headroom {

/// The head of a plot: its title and legend, as high as the rows that its width asks for.
class LegendBar : public QWidget
{
    Q_OBJECT
public:
    explicit LegendBar(QWidget* parent = nullptr);

    void setTitle(const QString& title);
    void setEntries(std::vector<LegendEntry> entries);
    /// Two choices behind the title, one of which is on: what the plot stacks by.
    void setChoices(const QString& first, const QString& second);
    void choose(int index); ///< emits nothing
    void setChoicesEnabled(bool enabled);

    QSize sizeHint() const override;

Q_SIGNALS:
    void chosen(int index);

protected:
    void resizeEvent(QResizeEvent* event) override;
    void paintEvent(QPaintEvent* event) override;

private:
    Legend laidOut() const;
    void fitHeight();
    double choicesWidth() const;

    QString title_;
    std::vector<LegendEntry> entries_;
    std::array<QToolButton*, 2> choices_{};
};

} // namespace headroom
