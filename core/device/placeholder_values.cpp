// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/device/placeholder_values.h"

#include "core/device/simulated_state.h"

#include <atomic>

namespace headroom::sim {
namespace {

std::atomic<void (*)(Placeholder)> told{nullptr};

void tellOf(Placeholder what)
{
    if (auto* const tell = told.load())
        tell(what);
}

} // namespace

void countPlaceholder(Placeholder what)
{
    ++simulatedState().placeholderValues;
    tellOf(what);
}

void tellOfOtherRanks()
{
    tellOf(Placeholder::otherRanks);
}

void tellOfDone()
{
    tellOf(Placeholder::done);
}

void onPlaceholderValue(void (*tell)(Placeholder))
{
    told = tell;
}

} // namespace headroom::sim
