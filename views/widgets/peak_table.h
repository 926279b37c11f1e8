// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/timeline/timeline.h"

#include <QWidget>

#include <optional>
#include <vector>

namespace headroom {

/// Memory at the peak by category, as recorded and under the plan: two bars on one scale, and a table. Categories
/// without bytes in both are left out.
class PeakTable : public QWidget
{
    Q_OBJECT
public:
    explicit PeakTable(QWidget* parent = nullptr);

    void setPeaks(const CategoryBytes& recorded, const std::optional<CategoryBytes>& planned);

    QSize sizeHint() const override;
    QSize minimumSizeHint() const override { return {200, sizeHint().height()}; }

protected:
    void paintEvent(QPaintEvent* event) override;

private:
    std::vector<Category> shownCategories() const; ///< top of the stack first
    void paintBar(QPainter& painter, double top, const CategoryBytes& bytes, bool pale) const;

    CategoryBytes recorded_{};
    std::optional<CategoryBytes> planned_;
};

} // namespace headroom
