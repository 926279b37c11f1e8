// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <vector>

namespace headroom {

/// A stretch of an axis in data units: ms, or bytes.
struct AxisRange
{
    double begin = 0;
    double end = 1;

    double length() const noexcept { return end - begin; }
    bool contains(double value) const noexcept { return value >= begin && value <= end; }
    bool operator==(const AxisRange&) const = default;
};

/// Geometry of one axis as a value: data on one side, pixels on the other, and what a zoom or a pan makes of the range.
/// Knows neither widget nor chart. A vertical axis has pixelBegin > pixelEnd.
struct AxisMap
{
    AxisRange data;
    double pixelBegin = 0;
    double pixelEnd = 1;

    double toPixel(double value) const noexcept;
    double toData(double pixel) const noexcept;
    double dataPerPixel() const noexcept; ///< always positive

    /// The range after a zoom by `factor` (> 1: closer) that leaves the value under `pixel` where it is, kept inside
    /// `limits` and not shorter than `shortest`.
    AxisRange zoomed(double factor, double pixel, AxisRange limits, double shortest) const noexcept;

    /// The range moved so that what was at pixel 0 is at `pixels`, kept inside `limits`.
    AxisRange panned(double pixels, AxisRange limits) const noexcept;
};

/// `range` moved (and, where it is too long, cut) so that it lies inside `limits`.
AxisRange clamped(AxisRange range, AxisRange limits) noexcept;

/// Ticks at 1, 2 or 5 times a power of ten, with at most `mostSteps` steps between them.
struct Ticks
{
    double first = 0; ///< at or after the begin of the range
    double step = 1;
    int count = 0;
    int decimals = 0; ///< needed to print every tick exactly

    double at(int index) const noexcept { return first + step * index; }
};
Ticks niceTicks(AxisRange range, int mostSteps);

/// One unit for a whole axis or table, so that its numbers can be compared: the largest binary one that `largest`
/// fills.
struct ByteUnit
{
    double bytes = 1; ///< in one unit
    const char* name = "B"; ///< "GiB", "MiB", "KiB" or "B"
};
ByteUnit byteUnitFor(double largest) noexcept;

/// Ranges that were on the screen, to go back to.
class ZoomStack
{
public:
    explicit ZoomStack(AxisRange all = {});

    void reset(AxisRange all); ///< other data: the stack holds only `all`
    void setAll(AxisRange all); ///< the data grew or shrank: what is on the stack stays, inside the new limits
    void push(AxisRange range); ///< a new range, which pop() leaves again
    void replaceTop(AxisRange range); ///< the same step goes on: wheel and pan do not fill the stack one notch each
    bool pop(); ///< false at the bottom
    void showAll();

    const AxisRange& current() const noexcept { return ranges_.back(); }
    const AxisRange& all() const noexcept { return ranges_.front(); }
    bool zoomedIn() const noexcept { return current() != all(); }

private:
    std::vector<AxisRange> ranges_;
};

} // namespace headroom
