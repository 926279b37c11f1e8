// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

namespace headroom::sim {

/// The program reads a value, or is given a size, that no data says.
void countInvented();

/// Calls `tell` after each of these, in the thread that reads it; null: nobody.
void onInventedValue(void (*tell)());

} // namespace headroom::sim
