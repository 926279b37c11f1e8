// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "views/plot/legend.h"

#include <QWidget>

#include <array>
#include <optional>

class QToolButton;

namespace headroom {

/// The header of a plot: its title and legend, in as many rows as the width needs.
class LegendBar : public QWidget
{
    Q_OBJECT
public:
    explicit LegendBar(QWidget* parent = nullptr);

    void setTitle(const QString& title);
    void setEntries(std::vector<LegendEntry> entries);
    /// Shows two exclusive buttons after the title: the groupings of the plot's stack.
    void setChoices(const QString& first, const QString& second);
    void choose(int index); ///< emits no signal
    void setChoicesEnabled(bool enabled);

    QSize sizeHint() const override { return {400, height()}; }

Q_SIGNALS:
    void chosen(int index);

protected:
    void resizeEvent(QResizeEvent* event) override;
    void paintEvent(QPaintEvent* event) override;
    void changeEvent(QEvent* event) override;

private:
    void layOut(); ///< also sets the height
    double choicesWidth() const;

    QString title_;
    std::vector<LegendEntry> entries_;
    std::array<QToolButton*, 2> choices_{};
    std::optional<Legend> legend_; ///< nullopt: not laid out yet
};

} // namespace headroom
