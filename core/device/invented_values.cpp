// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/device/invented_values.h"

#include "core/device/simulated_state.h"

#include <atomic>

namespace headroom::sim {
namespace {

std::atomic<void (*)(Invented)> told{nullptr};

} // namespace

void countInvented(Invented what)
{
    ++simulatedState().inventedValues;
    if (auto* const tell = told.load())
        tell(what);
}

void onInventedValue(void (*tell)(Invented))
{
    told = tell;
}

} // namespace headroom::sim
