// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

namespace headroom::sim {

/// What is invented. By a truth value, true or false, the program decides what it does next; a
/// size is that of a result. Of other ranks values are taken to be this one's.
enum class Invented { number = 0, truth = 1, size = 2, otherRanks = 3 };

/// The program reads a value, or is given a size, that no data says.
void countInvented(Invented what = Invented::number);

/// It reads a value that follows from what other ranks of its job were taken to hold, which is not invented.
void tellOfOtherRanks();

/// Calls `tell` after each of these, in the thread that reads it; null: nobody.
void onInventedValue(void (*tell)(Invented));

} // namespace headroom::sim
