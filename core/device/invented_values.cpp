// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/device/invented_values.h"

#include "core/device/simulated_state.h"

#include <atomic>

namespace headroom::sim {
namespace {

std::atomic<void (*)()> told{nullptr};

} // namespace

void countInvented()
{
    ++simulatedState().inventedValues;
    if (auto* const tell = told.load())
        tell();
}

void onInventedValue(void (*tell)())
{
    told = tell;
}

} // namespace headroom::sim
