// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/device/invented_values.h"

#include "core/device/simulated_state.h"

#include <atomic>

namespace headroom::sim {
namespace {

std::atomic<void (*)(Invented)> told{nullptr};

void tellOf(Invented what)
{
    if (auto* const tell = told.load())
        tell(what);
}

} // namespace

void countInvented(Invented what)
{
    ++simulatedState().inventedValues;
    tellOf(what);
}

void tellOfOtherRanks()
{
    tellOf(Invented::otherRanks);
}

void tellOfDone()
{
    tellOf(Invented::done);
}

void onInventedValue(void (*tell)(Invented))
{
    told = tell;
}

} // namespace headroom::sim
