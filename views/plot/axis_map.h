// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <vector>

namespace headroom {

/// A range of an axis in data units (ms or bytes).
struct AxisRange
{
    double begin = 0;
    double end = 1;

    double length() const noexcept { return end - begin; }
    bool contains(double value) const noexcept { return value >= begin && value <= end; }
    bool operator==(const AxisRange&) const = default;
};

/// Maps data of an axis to pixels and back, and computes zoomed and panned ranges. Independent of widgets and charts.
/// A vertical axis has pixelBegin > pixelEnd.
struct AxisMap
{
    AxisRange data;
    double pixelBegin = 0;
    double pixelEnd = 1;

    double toPixel(double value) const noexcept;
    double toData(double pixel) const noexcept;
    double dataPerPixel() const noexcept; ///< always positive

    /// The range after a zoom by `factor` (> 1: in) around the value at `pixel`, inside `limits` and not shorter than
    /// `shortest`.
    AxisRange zoomed(double factor, double pixel, AxisRange limits, double shortest) const noexcept;

    /// The range moved by `pixels`, inside `limits`.
    AxisRange panned(double pixels, AxisRange limits) const noexcept;
};

/// `range` moved inside `limits`, and cut if too long.
AxisRange clamped(AxisRange range, AxisRange limits) noexcept;

/// Ticks at 1, 2 or 5 times a power of ten, with at most `mostSteps` steps between them.
struct Ticks
{
    double first = 0; ///< first tick, at or after the begin of the range
    double step = 1;
    int count = 0;
    int decimals = 0; ///< digits after the point that print every tick exactly

    double at(int index) const noexcept { return first + step * index; }
};
Ticks niceTicks(AxisRange range, int mostSteps);

/// A common unit for all numbers of an axis or table: the largest binary unit not above `largest`.
struct ByteUnit
{
    double bytes = 1; ///< in one unit
    const char* name = "B"; ///< "GiB", "MiB", "KiB" or "B"
};
ByteUnit byteUnitFor(double largest) noexcept;

/// The history of shown ranges, for zooming back.
class ZoomStack
{
public:
    explicit ZoomStack(AxisRange all = {});

    void reset(AxisRange all); ///< for other data: the stack has only `all`
    void setAll(AxisRange all); ///< for data that grew or shrank: clamps the ranges to the new limits
    void push(AxisRange range); ///< shows a new range; pop() goes back
    void replaceTop(AxisRange range); ///< replaces the shown range: a turn of the wheel or a pan is a single entry
    bool pop(); ///< returns false if there is no range to go back to
    void showAll();

    const AxisRange& current() const noexcept { return ranges_.back(); }
    const AxisRange& all() const noexcept { return ranges_.front(); }
    bool zoomedIn() const noexcept { return current() != all(); }

private:
    std::vector<AxisRange> ranges_;
};

} // namespace headroom
