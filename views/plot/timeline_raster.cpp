// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/plot/timeline_draw_list.h"

#include <algorithm>
#include <cmath>

namespace headroom {
namespace {

// Columns are filled one by one into a small buffer that stays in the cache, and then written to the image row by row:
// writing a column straight into a row-major image misses the cache at every pixel.
constexpr int blockWidth = 16;

QRgb premultiplied(const QColor& color, double alpha = 1)
{
    return qPremultiply(qRgba(color.red(), color.green(), color.blue(), static_cast<int>(alpha * 255 + 0.5)));
}

// Rounds down, so that shares of one pixel never add up to more than the whole.
QRgb scaled(QRgb color, unsigned share256)
{
    const auto channel = [share256](int value) { return static_cast<int>((value * share256) >> 8); };
    return qRgba(channel(qRed(color)), channel(qGreen(color)), channel(qBlue(color)), channel(qAlpha(color)));
}

// One column of pixels, top first. Disjoint intervals add up to full coverage, so edges are exact area averages.
class PixelColumnPainter
{
public:
    explicit PixelColumnPainter(int height)
        : pixels_(static_cast<std::size_t>(height))
    {
    }

    void clear() { std::fill(pixels_.begin(), pixels_.end(), 0); }
    const std::vector<QRgb>& pixels() const { return pixels_; }

    void add(double top, double bottom, QRgb color)
    {
        forCoverage(
            top, bottom, [&](QRgb& pixel, unsigned share) { pixel += scaled(color, share); },
            [&](std::size_t first, std::size_t last) {
                std::fill(pixels_.begin() + static_cast<std::ptrdiff_t>(first),
                          pixels_.begin() + static_cast<std::ptrdiff_t>(last), color);
            });
    }

    void hatch(double top, double bottom, const std::vector<QRgb>& pattern, int column)
    {
        const auto at = [&](std::size_t y) { return pattern[(y + static_cast<std::size_t>(column)) % pattern.size()]; };
        const auto y = [&](const QRgb& pixel) { return static_cast<std::size_t>(&pixel - pixels_.data()); };
        forCoverage(
            top, bottom, [&](QRgb& pixel, unsigned share) { pixel += scaled(at(y(pixel)), share); },
            [&](std::size_t first, std::size_t last) {
                std::size_t phase = (first + static_cast<std::size_t>(column)) % pattern.size();
                for (std::size_t i = first; i < last; ++i) {
                    pixels_[i] = pattern[phase];
                    phase = phase + 1 == pattern.size() ? 0 : phase + 1;
                }
            });
    }

    // Paints over the pixels, which may be transparent.
    void blend(double top, double bottom, QRgb color)
    {
        const auto over = [&](QRgb& pixel, unsigned share) {
            const QRgb source = scaled(color, share);
            pixel = source + scaled(pixel, 256u - (static_cast<unsigned>(qAlpha(source)) * 257u >> 8));
        };
        forCoverage(top, bottom, over, [&](std::size_t first, std::size_t last) {
            for (std::size_t i = first; i < last; ++i)
                over(pixels_[i], 256);
        });
    }

private:
    template <class Part, class Whole>
    void forCoverage(double top, double bottom, Part part, Whole whole)
    {
        const double limit = static_cast<double>(pixels_.size());
        top = std::clamp(top, 0.0, limit);
        bottom = std::clamp(bottom, 0.0, limit);
        if (bottom <= top)
            return;
        const auto first = static_cast<std::size_t>(top);
        const auto last = static_cast<std::size_t>(bottom);
        const auto share = [](double length) { return static_cast<unsigned>(length * 256); };
        if (first == last) {
            part(pixels_[first], share(bottom - top));
            return;
        }
        const double head = static_cast<double>(first) + 1 - top;
        if (head < 1)
            part(pixels_[first], share(head));
        whole(head < 1 ? first + 1 : first, last);
        if (last < pixels_.size() && bottom > static_cast<double>(last))
            part(pixels_[last], share(bottom - static_cast<double>(last)));
    }

    std::vector<QRgb> pixels_;
};

// One period of a line at 45 degrees, sampled at whole pixels.
std::vector<QRgb> hatchPattern(const Theme& theme, double pixelsPerPoint)
{
    const int period = std::max(4, static_cast<int>(std::lround(7 * pixelsPerPoint)));
    const double halfWidth = 0.5 * pixelsPerPoint;
    std::vector<QRgb> pattern(static_cast<std::size_t>(period));
    for (int i = 0; i < period; ++i) {
        const double distance = std::min(i, period - i) / std::sqrt(2.0);
        const double coverage = std::clamp(halfWidth + 0.5 - distance, 0.0, 1.0);
        pattern[static_cast<std::size_t>(i)] = premultiplied(theme.hatch, coverage);
    }
    return pattern;
}

class Rasteriser
{
public:
    Rasteriser(const TimelineDrawList& list, int height, AxisRange bytes, double pixelsPerPoint, const Theme& theme)
        : list_(list)
        , y_{bytes, static_cast<double>(height), 0}
        , edge_(pixelsPerPoint)
        , lineWidth_(1.25 * pixelsPerPoint)
        , pattern_(hatchPattern(theme, pixelsPerPoint))
        , edgeColor_(premultiplied(theme.card))
        , outlineColor_(premultiplied(theme.text, 0.62))
    {
        for (const auto& band : list.bands)
            colors_.push_back(premultiplied(band.color(theme)));
    }

    void paint(PixelColumnPainter& painter, int column) const
    {
        const auto at = static_cast<std::size_t>(column);
        double top = y_.pixelBegin;
        if (at < list_.main.size())
            top = paintBands(painter, list_.main.at(at));
        if (at >= list_.outline.size())
            return;
        const double outline = y_.toPixel(static_cast<double>(list_.outline[at]));
        if (outline >= top)
            return; // nothing is saved here; inside the stack the outline would only be noise
        painter.hatch(outline, top, pattern_, column);
        // The outline joins the columns: it runs from the height of the one before to its own.
        const double before = at > 0 ? std::min(top, y_.toPixel(static_cast<double>(list_.outline[at - 1]))) : outline;
        const double half = lineWidth_ / 2;
        painter.blend(std::min(outline, before) - half, std::max(outline, before) + half, outlineColor_);
    }

private:
    // Returns the y of the stack's top.
    double paintBands(PixelColumnPainter& painter, std::span<const Bytes> parts) const
    {
        double bottom = y_.pixelBegin;
        Bytes sum = 0;
        for (std::size_t band = 0; band < parts.size(); ++band) {
            if (parts[band] <= 0)
                continue;
            sum += parts[band];
            const double top = y_.toPixel(static_cast<double>(sum));
            // A thin band loses at most a third of its height.
            const double gap = bottom < y_.pixelBegin ? std::min(edge_, (bottom - top) / 3) : 0;
            painter.add(bottom - gap, bottom, edgeColor_);
            painter.add(top, bottom - gap, colors_[band]);
            bottom = top;
        }
        return bottom;
    }

    const TimelineDrawList& list_;
    AxisMap y_;
    double edge_;
    double lineWidth_;
    std::vector<QRgb> pattern_;
    QRgb edgeColor_;
    QRgb outlineColor_;
    std::vector<QRgb> colors_; ///< of the bands
};

} // namespace

QImage rasterise(const TimelineDrawList& list, QSize size, AxisRange bytes, double pixelsPerPoint, const Theme& theme)
{
    QImage image(size, QImage::Format_ARGB32_Premultiplied);
    image.fill(Qt::transparent);
    const int drawn = static_cast<int>(std::max(list.main.size(), list.outline.size()));
    const int columns = std::min(size.width(), drawn);
    const Rasteriser rasteriser(list, size.height(), bytes, pixelsPerPoint, theme);
    std::vector<PixelColumnPainter> block(blockWidth, PixelColumnPainter(size.height()));
    auto* pixels = reinterpret_cast<QRgb*>(image.bits());
    const auto stride = static_cast<std::size_t>(image.bytesPerLine()) / sizeof(QRgb);
    for (int left = 0; left < columns; left += blockWidth) {
        const int width = std::min(blockWidth, columns - left);
        for (int i = 0; i < width; ++i) {
            block[static_cast<std::size_t>(i)].clear();
            rasteriser.paint(block[static_cast<std::size_t>(i)], left + i);
        }
        for (std::size_t y = 0; y < static_cast<std::size_t>(size.height()); ++y) {
            QRgb* row = pixels + y * stride + left;
            for (int i = 0; i < width; ++i)
                row[i] = block[static_cast<std::size_t>(i)].pixels()[y];
        }
    }
    image.setDevicePixelRatio(pixelsPerPoint);
    return image;
}

} // namespace headroom
