// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

namespace headroom::sim {

/// The kinds of placeholder values, which no data determines. A truth value decides a branch of the program; a size
/// belongs to an op's result. A value of other ranks is taken to be this rank's. Work that was issued to the card is
/// said to be done.
enum class Placeholder { number = 0, truth = 1, size = 2, otherRanks = 3, done = 4 };

/// Counts a value that the program reads, or a size of a result, that no data determines.
void countPlaceholder(Placeholder what = Placeholder::number);

/// Reports that the program reads a value that rests on the assumption about other ranks of its job. Such a value is no
/// placeholder.
void tellOfOtherRanks();

/// Reports that the program asked whether an event or a stream is done, and was told yes. The answer is no placeholder
/// value.
void tellOfDone();

/// Sets the function that is called after each placeholder value, in the thread that reads the value; null: none.
void onPlaceholderValue(void (*tell)(Placeholder));

} // namespace headroom::sim
