// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

namespace headroom::sim {

/// What is invented. By a truth value, true or false, the program decides what it does next; a
/// size is that of a result.
enum class Invented { number = 0, truth = 1, size = 2 };

/// The program reads a value, or is given a size, that no data says.
void countInvented(Invented what = Invented::number);

/// Calls `tell` after each of these, in the thread that reads it; null: nobody.
void onInventedValue(void (*tell)(Invented));

} // namespace headroom::sim
