// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/bytes.h"
#include "core/sac/module_info.h"

#include <span>
#include <vector>

namespace headroom {

/// What checkpointing one module costs: recompute time as a convex, piecewise linear function of the bytes that its
/// forward then does not keep, from 0 to the module's activation memory.
///
/// PyTorch writes the same with the share r of its SAC memory discarded: bytes = ACM * r - (ACM - IA), time = ACT *
/// max(0, slopes * r + intercepts). Its corners are put on whole bytes here, so that plans can be checked in integers.
class RecomputeCurve
{
public:
    /// A stretch of the curve on which every byte costs the same.
    struct Piece
    {
        Bytes bytes = 0;
        double msPerByte = 0;
        bool operator==(const Piece&) const = default;
    };

    RecomputeCurve() = default;
    explicit RecomputeCurve(const ModuleStats& module);

    double baseMs() const { return baseMs_; } ///< of checkpointing at all, with freeBytes() discarded
    Bytes freeBytes() const { return freeBytes_; } ///< discarded at no more than baseMs(): always taken
    std::span<const Piece> pieces() const { return pieces_; } ///< after freeBytes(), dearer and dearer
    Bytes maxBytes() const { return maxBytes_; }
    double msAt(Bytes discarded) const; ///< freeBytes() at least, maxBytes() at most

    bool operator==(const RecomputeCurve&) const = default;

    /// A curve with few pieces that is nowhere above any of `curves` (which have one maxBytes()): what the cheapest of
    /// them costs.
    static RecomputeCurve lowerEnvelope(const std::vector<const RecomputeCurve*>& curves);

private:
    struct Line
    {
        double msAtZero = 0;
        double msPerByte = 0;
    };
    RecomputeCurve(std::vector<Line> lines, Bytes maxBytes);

    double baseMs_ = 0;
    Bytes freeBytes_ = 0;
    Bytes maxBytes_ = 0;
    std::vector<Piece> pieces_;
};

} // namespace headroom
