// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/widgets/peak_table.h"

#include "views/plot/number_text.h"
#include "views/plot/text_line.h"
#include "views/theme/theme.h"

#include <QPainter>
#include <QStringList>

#include <algorithm>

namespace headroom {
namespace {

constexpr int barHeight = 8;
constexpr int barGap = 4;
constexpr int headHeight = 24;
constexpr int categoryHeight = 22;
constexpr int numberColumn = 52;
constexpr int swatch = 8;

} // namespace

PeakTable::PeakTable(QWidget* parent)
    : QWidget(parent)
{
    setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
}

void PeakTable::setPeaks(const CategoryBytes& recorded, const std::optional<CategoryBytes>& planned)
{
    if (recorded == recorded_ && planned == planned_)
        return;
    const std::size_t before = shownCategories().size();
    recorded_ = recorded;
    planned_ = planned;
    QStringList lines;
    for (const Category category : shownCategories()) {
        const auto i = static_cast<std::size_t>(category);
        lines << tr("%1: recorded %2, plan %3")
                     .arg(categoryTitle(category), bytesText(recorded_[i], 2),
                          planned_ ? bytesText((*planned_)[i], 2) : tr("none"));
    }
    setAccessibleDescription(lines.join(QStringLiteral("; ")));
    if (shownCategories().size() != before)
        updateGeometry();
    update();
}

std::vector<Category> PeakTable::shownCategories() const
{
    std::vector<Category> shown(stackOrder.rbegin(), stackOrder.rend());
    std::erase_if(shown, [this](Category category) {
        const auto i = static_cast<std::size_t>(category);
        return recorded_[i] == 0 && (!planned_ || (*planned_)[i] == 0);
    });
    return shown;
}

QSize PeakTable::sizeHint() const
{
    const int rows = static_cast<int>(shownCategories().size()) + 1; // and the sum
    return {240, 2 * barHeight + barGap + headHeight + rows * categoryHeight + 6};
}

void PeakTable::paintBar(QPainter& painter, double top, const CategoryBytes& bytes, bool pale) const
{
    const Theme& theme = Theme::of(*this);
    const Bytes most = std::max({total(recorded_), planned_ ? total(*planned_) : 0, Bytes(1)});
    double left = 0;
    for (const Category category : stackOrder) {
        const double length
            = width() * static_cast<double>(bytes[static_cast<std::size_t>(category)]) / static_cast<double>(most);
        if (length <= 0)
            continue;
        const QRectF part(left, top, length > 2 ? length - 1 : length, barHeight); // 1 px of card parts two categories
        painter.fillRect(part, pale ? theme.pale(category) : theme.color(category));
        left += length;
    }
}

void PeakTable::paintEvent(QPaintEvent*)
{
    const Theme& theme = Theme::of(*this);
    QPainter painter(this);
    painter.setRenderHint(QPainter::Antialiasing);
    paintBar(painter, 0, recorded_, true);
    if (planned_)
        paintBar(painter, barHeight + barGap, *planned_, false);

    const double largest = static_cast<double>(std::max(total(recorded_), planned_ ? total(*planned_) : 0));
    const ByteUnit unit = byteUnitFor(largest);
    int top = 2 * barHeight + barGap;
    const auto cell = [&](int column) {
        return QRect(width() - (2 - column) * numberColumn, top, numberColumn, column < 0 ? 0 : categoryHeight);
    };
    const auto numbers = [&](Bytes recorded, std::optional<Bytes> planned) {
        painter.setFont(theme.number);
        painter.setPen(theme.secondText);
        paintLine(painter, cell(0), Qt::AlignRight | Qt::AlignVCenter, inUnit(recorded, unit, 2));
        painter.setFont(theme.numberStrong);
        painter.setPen(theme.text);
        paintLine(painter, cell(1), Qt::AlignRight | Qt::AlignVCenter,
                  planned ? inUnit(*planned, unit, 2) : QStringLiteral("–"));
    };

    painter.setFont(theme.caption);
    painter.setPen(theme.secondText);
    paintLine(painter, cell(0).adjusted(0, 2, 0, 2), Qt::AlignRight | Qt::AlignVCenter, tr("Recorded"));
    paintLine(painter, cell(1).adjusted(0, 2, 0, 2), Qt::AlignRight | Qt::AlignVCenter, tr("Plan"));
    top += headHeight;
    for (const Category category : shownCategories()) {
        const auto i = static_cast<std::size_t>(category);
        painter.setPen(Qt::NoPen);
        painter.setBrush(theme.color(category));
        painter.drawRoundedRect(QRectF(0, top + (categoryHeight - swatch) / 2.0, swatch, swatch), 1.5, 1.5);
        painter.setFont(theme.body);
        painter.setPen(theme.text);
        // A long name takes what the number beside it leaves of its column.
        const int number = qRound(lineWidth(theme.number, inUnit(recorded_[i], unit, 2)));
        const QRect name(swatch + 8, top, width() - numberColumn - number - 6 - (swatch + 8), categoryHeight);
        paintElided(painter, name, Qt::AlignLeft | Qt::AlignVCenter, categoryTitle(category), Qt::ElideRight);
        numbers(recorded_[i], planned_ ? std::optional((*planned_)[i]) : std::nullopt);
        top += categoryHeight;
    }
    painter.setPen(theme.line);
    painter.drawLine(QPointF(0, top + 1.5), QPointF(width(), top + 1.5));
    top += 4;
    painter.setFont(theme.bodyStrong);
    painter.setPen(theme.text);
    paintLine(painter, QRect(0, top, width() - 2 * numberColumn, categoryHeight), Qt::AlignLeft | Qt::AlignVCenter,
              tr("Total"));
    numbers(total(recorded_), planned_ ? std::optional(total(*planned_)) : std::nullopt);
}

} // namespace headroom
