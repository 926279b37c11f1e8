// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/elapsed.h"

#include <stop_token>
#include <utility>

namespace headroom {

/// Ends a search early: by the clock, or by the caller's stop token.
struct SearchLimit
{
    std::chrono::steady_clock::time_point end;
    std::stop_token stop;

    static SearchLimit after(double ms, std::stop_token stop)
    {
        using Clock = std::chrono::steady_clock;
        const std::chrono::duration<double, std::milli> limit(ms);
        return {Clock::now() + std::chrono::duration_cast<Clock::duration>(limit), std::move(stop)};
    }
    bool reached() const { return stop.stop_requested() || std::chrono::steady_clock::now() >= end; }
    double remainingMs() const { return -elapsedMs(end); }
};

} // namespace headroom
