// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/bytes.h"
#include "core/sac/module_info.h"

#include <span>
#include <vector>

namespace headroom {

/// The cost of checkpointing one module: recompute time as a convex, piecewise linear function of the bytes that it
/// discards, from 0 to the module's activation memory.
///
/// PyTorch writes it with r, the discarded share of the module's SAC memory: bytes = ACM * r - (ACM - IA), time = ACT *
/// max(0, slopes * r + intercepts). Here corners are at whole bytes, so that plans can be checked in integers.
class RecomputeCurve
{
public:
    /// A linear piece of the curve.
    struct Piece
    {
        Bytes bytes = 0;
        double msPerByte = 0;
        bool operator==(const Piece&) const = default;
    };

    RecomputeCurve() = default;
    explicit RecomputeCurve(const ModuleStats& module);

    double baseMs() const { return baseMs_; } ///< ms with freeBytes() discarded
    Bytes freeBytes() const { return freeBytes_; } ///< bytes that cost no more than baseMs(): always discarded
    std::span<const Piece> pieces() const { return pieces_; } ///< pieces after freeBytes(), by ascending msPerByte
    Bytes maxBytes() const { return maxBytes_; }
    double msAt(Bytes discarded) const; ///< `discarded` is from freeBytes() to maxBytes()

    bool operator==(const RecomputeCurve&) const = default;

    /// A curve with few pieces that is nowhere above any of `curves`, which have the same maxBytes().
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
