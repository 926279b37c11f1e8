// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/plot/axis_map.h"

#include <algorithm>
#include <cmath>

namespace headroom {

double AxisMap::toPixel(double value) const noexcept
{
    return pixelBegin + (value - data.begin) / data.length() * (pixelEnd - pixelBegin);
}

double AxisMap::toData(double pixel) const noexcept
{
    return data.begin + (pixel - pixelBegin) / (pixelEnd - pixelBegin) * data.length();
}

double AxisMap::dataPerPixel() const noexcept
{
    return std::abs(data.length() / (pixelEnd - pixelBegin));
}

AxisRange AxisMap::zoomed(double factor, double pixel, AxisRange limits, double shortest) const noexcept
{
    const double anchor = toData(pixel);
    const double length = std::clamp(data.length() / factor, std::min(shortest, limits.length()), limits.length());
    const double share = (anchor - data.begin) / data.length();
    const double begin = anchor - share * length;
    return clamped({begin, begin + length}, limits);
}

AxisRange AxisMap::panned(double pixels, AxisRange limits) const noexcept
{
    const double by = -pixels / (pixelEnd - pixelBegin) * data.length();
    return clamped({data.begin + by, data.end + by}, limits);
}

AxisRange clamped(AxisRange range, AxisRange limits) noexcept
{
    const double length = range.length();
    if (length >= limits.length())
        return limits;
    if (range.begin < limits.begin)
        return {limits.begin, limits.begin + length};
    if (range.end > limits.end)
        return {limits.end - length, limits.end};
    return range;
}

Ticks niceTicks(AxisRange range, int mostSteps)
{
    Ticks ticks;
    if (!(range.length() > 0) || !std::isfinite(range.length()) || mostSteps < 1)
        return ticks;
    const double rough = range.length() / mostSteps;
    double power = std::pow(10.0, std::floor(std::log10(rough)));
    ticks.step = 10 * power;
    for (const double multiple : {1.0, 2.0, 5.0}) {
        if (multiple * power >= rough * (1 - 1e-9)) {
            ticks.step = multiple * power;
            break;
        }
    }
    ticks.first = std::ceil(range.begin / ticks.step - 1e-9) * ticks.step;
    ticks.count = static_cast<int>(std::floor((range.end - ticks.first) / ticks.step + 1e-9)) + 1;
    ticks.count = std::max(ticks.count, 0);
    ticks.decimals = std::max(0, -static_cast<int>(std::floor(std::log10(ticks.step) + 1e-9)));
    if (ticks.first == 0)
        ticks.first = 0; // not -0
    return ticks;
}

ByteUnit byteUnitFor(double largest) noexcept
{
    static constexpr ByteUnit units[] = {{1024.0 * 1024 * 1024, "GiB"}, {1024.0 * 1024, "MiB"}, {1024.0, "KiB"}};
    for (const auto& unit : units) {
        if (largest >= unit.bytes)
            return unit;
    }
    return {};
}

ZoomStack::ZoomStack(AxisRange all)
    : ranges_{all}
{
}

void ZoomStack::reset(AxisRange all)
{
    ranges_.assign(1, all);
}

void ZoomStack::setAll(AxisRange all)
{
    ranges_.front() = all;
    for (auto range = ranges_.begin() + 1; range != ranges_.end(); ++range)
        *range = clamped(*range, all);
}

void ZoomStack::push(AxisRange range)
{
    if (range != current())
        ranges_.push_back(range);
}

void ZoomStack::replaceTop(AxisRange range)
{
    if (ranges_.size() == 1)
        push(range);
    else
        ranges_.back() = range;
}

bool ZoomStack::pop()
{
    if (ranges_.size() == 1)
        return false;
    ranges_.pop_back();
    return true;
}

void ZoomStack::showAll()
{
    ranges_.resize(1);
}

} // namespace headroom
