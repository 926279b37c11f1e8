// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

namespace headroom::sim {

/// The kinds of invented values. A truth value decides a branch of the program; a size is that of an op's result. A
/// value of other ranks is taken to be this rank's. Work that was issued to the card is said to be done.
enum class Invented { number = 0, truth = 1, size = 2, otherRanks = 3, done = 4 };

/// Counts a value that the program reads, or a size of a result, that no data determines.
void countInvented(Invented what = Invented::number);

/// Reports that the program reads a value that rests on the assumption about other ranks of its job. This value does
/// not count as invented.
void tellOfOtherRanks();

/// Reports that the program asked whether an event or a stream is done, and was told that it is. No value was invented.
void tellOfDone();

/// Sets the function that is called after each invented value, in the thread that reads the value; null: none.
void onInventedValue(void (*tell)(Invented));

} // namespace headroom::sim
