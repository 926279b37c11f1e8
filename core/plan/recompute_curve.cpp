// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/plan/recompute_curve.h"

#include "core/base/curves.h"

#include <algorithm>
#include <cmath>

namespace headroom {

namespace {

struct Corner
{
    Bytes bytes = 0;
    double ms = 0;
    double msPerByte = 0; ///< slope of the line that begins here
};

} // namespace

RecomputeCurve::RecomputeCurve(const ModuleStats& module)
{
    const double kept = static_cast<double>(module.activationForward);
    const double all = std::max(static_cast<double>(module.sacMemory), kept); // as sac_milp: never below act_fw
    std::vector<Line> lines{Line{}};
    for (std::size_t segment = 0; segment < module.slopes.size(); ++segment) {
        const double msPerShare = module.sacRuntimeMs * module.slopes[segment];
        const double msAtNone = module.sacRuntimeMs * module.intercepts[segment];
        lines.push_back({msAtNone + msPerShare * (all - kept) / all, msPerShare / all});
    }
    *this = RecomputeCurve(std::move(lines), module.activationForward);
}

RecomputeCurve::RecomputeCurve(std::vector<Line> lines, Bytes maxBytes)
    : maxBytes_(maxBytes)
{
    const auto highest = [&](Bytes bytes) {
        double ms = 0;
        for (const Line& line : lines)
            ms = std::max(ms, line.msAtZero + line.msPerByte * static_cast<double>(bytes));
        return ms;
    };
    // Corners of the upper envelope: from the line that is highest at 0, always on to the line that overtakes first.
    Line current{-1, 0};
    for (const Line& line : lines)
        if (line.msAtZero > current.msAtZero
            || (line.msAtZero == current.msAtZero && line.msPerByte > current.msPerByte))
            current = line;
    std::vector<Corner> corners{{0, highest(0), current.msPerByte}};
    for (;;) {
        const Line* next = nullptr;
        double nextBytes = static_cast<double>(maxBytes);
        for (const Line& line : lines) {
            if (line.msPerByte <= current.msPerByte)
                continue;
            const double crossing = (current.msAtZero - line.msAtZero) / (line.msPerByte - current.msPerByte);
            if (crossing < nextBytes
                || (next != nullptr && crossing == nextBytes && line.msPerByte > next->msPerByte)) {
                nextBytes = crossing;
                next = &line;
            }
        }
        if (next == nullptr)
            break;
        const auto bytes = static_cast<Bytes>(std::floor(std::max(nextBytes, 0.0)));
        current = *next;
        if (bytes > corners.back().bytes)
            corners.push_back({bytes, highest(bytes), current.msPerByte});
        else
            corners.back().msPerByte = current.msPerByte;
    }
    corners.push_back({maxBytes, highest(maxBytes), 0});

    // Bytes that cost no more time are always discarded.
    std::size_t first = 0;
    while (first + 1 < corners.size() && corners[first].msPerByte <= 0)
        ++first;
    baseMs_ = corners[first].ms;
    freeBytes_ = corners[first].bytes;
    for (; first + 1 < corners.size(); ++first)
        if (corners[first + 1].bytes > corners[first].bytes)
            pieces_.push_back({corners[first + 1].bytes - corners[first].bytes, corners[first].msPerByte});
}

double RecomputeCurve::msAt(Bytes discarded) const
{
    double ms = baseMs_;
    Bytes left = discarded - freeBytes_;
    for (const Piece& piece : pieces_) {
        if (left <= 0)
            break;
        const Bytes taken = std::min(left, piece.bytes);
        ms += piece.msPerByte * static_cast<double>(taken);
        left -= taken;
    }
    return ms;
}

RecomputeCurve RecomputeCurve::lowerEnvelope(const std::vector<const RecomputeCurve*>& curves)
{
    const RecomputeCurve& first = *curves.front();
    if (std::ranges::all_of(curves, [&](const RecomputeCurve* curve) { return *curve == first; }))
        return first;

    std::vector<Bytes> grid{0, first.maxBytes_};
    for (const RecomputeCurve* curve : curves) {
        Bytes bytes = curve->freeBytes_;
        grid.push_back(bytes);
        for (const Piece& piece : curve->pieces_)
            grid.push_back(bytes += piece.bytes);
    }
    std::ranges::sort(grid);
    const auto [duplicates, end] = std::ranges::unique(grid);
    grid.erase(duplicates, end);

    std::vector<Corner> least;
    for (const Bytes bytes : grid) {
        Corner& corner = least.emplace_back(bytes, first.msAt(bytes));
        for (const RecomputeCurve* curve : curves)
            corner.ms = std::min(corner.ms, curve->msAt(bytes));
    }
    const std::vector<std::size_t> hull = lowerHull(
        least, [](const Corner& corner) { return corner.bytes; }, [](const Corner& c) { return c.ms; });
    // Slightly different curves leave many short edges. Without them the neighbours' lines meet a little lower.
    const Bytes shortest = first.maxBytes_ / 1000;
    std::vector<Line> lines{Line{}};
    for (std::size_t i = 1; i < hull.size(); ++i) {
        const Corner& corner = least[hull[i]];
        const Corner& before = least[hull[i - 1]];
        if (corner.bytes - before.bytes < shortest)
            continue;
        const double msPerByte = (corner.ms - before.ms) / static_cast<double>(corner.bytes - before.bytes);
        lines.push_back({corner.ms - msPerByte * static_cast<double>(corner.bytes), msPerByte});
    }
    return {std::move(lines), first.maxBytes_};
}

} // namespace headroom
