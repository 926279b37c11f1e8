// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/widgets/allocator_panel.h"

#include "views/plot/axis_map.h"
#include "views/plot/number_text.h"
#include "views/theme/styles.h"
#include "views/theme/theme.h"

#include <QHBoxLayout>
#include <QLabel>
#include <QLineEdit>
#include <QPainter>
#include <QPainterPath>
#include <QScrollArea>
#include <QSignalBlocker>
#include <QVBoxLayout>

#include <algorithm>

namespace headroom {
namespace {

constexpr qreal left = 76;
constexpr qreal right = 14;
constexpr qreal above = 26;
constexpr qreal below = 24;
constexpr qreal lineGap = 20; // least distance of the grid's lines
constexpr qreal rowLabelGap = 90; // least distance of the labels of time

/// The bytes as a staircase; `count` intervals fill the area.
QPainterPath steps(const BytesOverTime& bytes, std::size_t count, Bytes top, const QRectF& area)
{
    QPainterPath path;
    const auto y = [&](Bytes value) {
        return area.bottom() - area.height() * static_cast<qreal>(value) / static_cast<qreal>(top);
    };
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        const qreal begin = area.left() + area.width() * static_cast<qreal>(i) / static_cast<qreal>(count);
        const qreal end = area.left() + area.width() * static_cast<qreal>(i + 1) / static_cast<qreal>(count);
        if (i == 0)
            path.moveTo(begin, y(bytes[i]));
        else
            path.lineTo(begin, y(bytes[i]));
        path.lineTo(end, y(bytes[i]));
    }
    return path;
}

/// "12.5 GiB"
QString tickText(const Ticks& ticks, int index, const char* unit)
{
    return QString::number(ticks.at(index), 'f', ticks.decimals) + QLatin1Char(' ') + QString::fromUtf8(unit);
}

Bytes highest(const BytesOverTime& bytes)
{
    return bytes.empty() ? 0 : *std::max_element(bytes.begin(), bytes.end());
}

} // namespace

ReservedPlot::ReservedPlot(QWidget* parent)
    : QWidget(parent)
{
    setAccessibleName(tr("Reserved memory over time"));
}

void ReservedPlot::setCurves(ReservedCurves curves)
{
    curves_ = std::move(curves);
    QString words = tr("In use at most %1, reserved at most %2")
                        .arg(bytesText(highest(curves_.active), 2), bytesText(highest(curves_.reserved), 2));
    if (!curves_.recorded.empty())
        words += tr(", recorded at most %1").arg(bytesText(highest(curves_.recorded), 2));
    if (curves_.failureMs)
        words += tr("; memory runs out at %1").arg(msText(*curves_.failureMs));
    setAccessibleDescription(words);
    update();
}

Bytes ReservedPlot::top() const
{
    const Bytes most
        = std::max({highest(curves_.active), highest(curves_.reserved), highest(curves_.recorded), Bytes{1}});
    // The line of the GPU's memory is left out if the line would flatten the curves.
    const Bytes shown = curves_.capacity > 0 && curves_.capacity < 3 * most ? std::max(most, curves_.capacity) : most;
    return shown + shown / 12;
}

void ReservedPlot::paintEvent(QPaintEvent*)
{
    QPainter painter(this);
    painter.setRenderHint(QPainter::Antialiasing);
    const QRectF area = QRectF(rect()).adjusted(left, above, -right, -below);
    if (curves_.active.empty() || area.width() < 20 || area.height() < 20)
        return;
    drawAxes(painter, area);
    drawCurves(painter, area);
    drawLegend(painter, area);
}

void ReservedPlot::drawAxes(QPainter& painter, const QRectF& area) const
{
    const Theme& theme = Theme::of(*this);
    painter.setFont(theme.numberCaption);
    const ByteUnit unit = byteUnitFor(static_cast<double>(top()));
    const AxisRange bytes{0, static_cast<double>(top()) / unit.bytes};
    const Ticks rows = niceTicks(bytes, std::max(2, static_cast<int>(area.height() / lineGap)));
    for (int i = 0; i < rows.count; ++i) {
        const qreal y = area.bottom() - area.height() * rows.at(i) / bytes.end;
        painter.setPen(QPen(theme.line, 1));
        painter.drawLine(QPointF(area.left(), y), QPointF(area.right(), y));
        painter.setPen(theme.secondText);
        painter.drawText(QRectF(0, y - 8, left - 8, 16), Qt::AlignRight | Qt::AlignVCenter,
                         tickText(rows, i, unit.name));
    }
    if (curves_.durationMs <= 0)
        return;
    const TimeUnit timeUnit = timeUnitFor({0, curves_.durationMs});
    const AxisRange time{0, curves_.durationMs / timeUnit.ms};
    const Ticks columns = niceTicks(time, std::max(2, static_cast<int>(area.width() / rowLabelGap)));
    for (int i = 0; i < columns.count; ++i) {
        const qreal x = std::min(area.left() + area.width() * columns.at(i) / time.end, width() - rowLabelGap / 2);
        painter.drawText(QRectF(x - rowLabelGap / 2, area.bottom() + 4, rowLabelGap, 16),
                         Qt::AlignHCenter | Qt::AlignTop, tickText(columns, i, timeUnit.name));
    }
}

void ReservedPlot::drawCurves(QPainter& painter, const QRectF& area) const
{
    const Theme& theme = Theme::of(*this);
    const std::size_t count
        = std::max({curves_.intervals, curves_.active.size(), curves_.recorded.size(), curves_.reserved.size()});
    QPainterPath inUse = steps(curves_.active, count, top(), area);
    inUse.lineTo(inUse.currentPosition().x(), area.bottom());
    inUse.lineTo(area.left(), area.bottom());
    painter.fillPath(inUse, theme.color(Category::optimizer));
    painter.setBrush(Qt::NoBrush);
    if (!curves_.recorded.empty()) {
        painter.setPen(QPen(theme.secondText, 1.4, Qt::DashLine));
        painter.drawPath(steps(curves_.recorded, count, top(), area));
    }
    painter.setPen(QPen(theme.text, 1.8));
    painter.drawPath(steps(curves_.reserved, count, top(), area));
    if (curves_.capacity > 0 && curves_.capacity < top()) {
        const qreal y
            = area.bottom() - area.height() * static_cast<qreal>(curves_.capacity) / static_cast<qreal>(top());
        painter.setPen(QPen(theme.danger, 1.2, Qt::DotLine));
        painter.drawLine(QPointF(area.left(), y), QPointF(area.right(), y));
    }
    if (curves_.failureMs && curves_.durationMs > 0) {
        const qreal x = area.left() + area.width() * std::clamp(*curves_.failureMs / curves_.durationMs, 0.0, 1.0);
        painter.setPen(QPen(theme.danger, 1.6));
        painter.drawLine(QPointF(x, area.top()), QPointF(x, area.bottom()));
    }
}

void ReservedPlot::drawLegend(QPainter& painter, const QRectF& area) const
{
    const Theme& theme = Theme::of(*this);
    painter.setFont(theme.caption);
    qreal x = area.left();
    const auto entry = [&](const QString& text, const QPen& pen, const QColor& fill) {
        const QRectF sign(x, 9, 18, 8);
        if (fill.isValid()) {
            painter.fillRect(sign, fill);
        } else {
            painter.setPen(pen);
            painter.drawLine(QPointF(sign.left(), sign.center().y()), QPointF(sign.right(), sign.center().y()));
        }
        painter.setPen(theme.text);
        const qreal width = painter.fontMetrics().horizontalAdvance(text);
        painter.drawText(QRectF(x + 24, 4, width + 2, 18), Qt::AlignLeft | Qt::AlignVCenter, text);
        x += width + 44;
    };
    entry(tr("in use"), {}, theme.color(Category::optimizer));
    entry(tr("reserved"), QPen(theme.text, 1.8), {});
    if (!curves_.recorded.empty())
        entry(tr("reserved when recorded"), QPen(theme.secondText, 1.4, Qt::DashLine), {});
    if (curves_.failureMs)
        entry(tr("out of memory"), QPen(theme.danger, 1.6), {});
}

AllocatorPanel::AllocatorPanel(QWidget* parent)
    : QWidget(parent)
    , settings_(new QLineEdit(this))
    , words_(makeLabel(this))
    , plot_(new ReservedPlot(this))
{
    settings_->setObjectName(QStringLiteral("allocatorSettings"));
    settings_->setPlaceholderText(tr("PyTorch's defaults, or for example expandable_segments:True"));
    settings_->setAccessibleName(tr("Allocator settings, as in PYTORCH_CUDA_ALLOC_CONF"));
    settings_->setClearButtonEnabled(true);
    words_->setWordWrap(true);
    words_->setProperty("second", true);
    words_->setTextInteractionFlags(Qt::TextSelectableByMouse);

    auto* row = new QHBoxLayout;
    row->setSpacing(8);
    auto* settingsLabel = makeLabel(this, tr("&Settings"));
    settingsLabel->setBuddy(settings_);
    row->addWidget(settingsLabel);
    row->addWidget(settings_, 1);
    auto* column = makeLayout<QVBoxLayout>(this, {12, 8, 12, 8}, 6);
    column->addLayout(row);
    // The words may be longer than a low panel: why the step does not fit.
    auto* content = new QWidget;
    auto* inside = makeLayout<QVBoxLayout>(content, {0, 0, 0, 0}, 6);
    inside->addWidget(words_);
    inside->addWidget(plot_, 1);
    QScrollArea* scroll = makeScrolling(content, this);
    scroll->setAccessibleName(tr("Reserved memory"));
    column->addWidget(scroll, 1);
    connect(settings_, &QLineEdit::textChanged, this, &AllocatorPanel::settingsChanged);
}

QString AllocatorPanel::settings() const
{
    return settings_->text().trimmed();
}

void AllocatorPanel::setSettings(const QString& settings)
{
    const QSignalBlocker quiet(settings_);
    if (settings_->text().trimmed() != settings) // the cursor stays while settings are typed
        settings_->setText(settings);
}

void AllocatorPanel::showAnswer(const QString& words, const ReservedCurves& curves)
{
    words_->setText(words);
    plot_->setCurves(curves);
}

void AllocatorPanel::showProblem(const QString& sentence)
{
    words_->setText(sentence);
}

} // namespace headroom
