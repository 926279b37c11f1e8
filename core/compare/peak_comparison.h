// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/compare/peak_rows.h"

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace headroom {

/// Returns why the sides cannot be compared by this key, as a sentence; empty: they can.
std::string whyNotBy(PeakKey key, const PeakSide& a, const PeakSide& b);

/// Ops of one kind that only one file has, or that allocate more or less in the other file.
struct OpChange
{
    enum class Change { isNew, gone, larger, smaller };

    Change change = Change::isNew;
    ComparedOp kind;
    std::int64_t count = 0; ///< ops; larger and smaller: pairs of ops
    Bytes a = 0; ///< bytes that the ops allocate
    Bytes b = 0;

    Bytes difference() const noexcept { return b - a; }
};
std::string_view changeName(OpChange::Change change); ///< "new", "gone", "larger", "smaller"

/// The ops of two files that allocate memory. The differences of `changes` sum up to the difference of all bytes that
/// the two steps allocate.
struct OpChanges
{
    std::vector<OpChange> changes; ///< largest differences first
    std::int64_t opsA = 0;
    std::int64_t opsB = 0;
    std::int64_t pairs = 0;
    std::string note; ///< a sentence: why ops are not compared, or modules left out; empty: all is compared
};

/// Pairs ops of the same name, module and phase: first in the same order (a common subsequence), then ops that moved.
/// Overloads are ignored if a file has none, and modules if the files share none. Time: proportional to the ops, also
/// for quite different steps.
OpChanges opChanges(const PeakSide& a, const PeakSide& b);

/// Two peaks beside each other, by one key.
struct PeakComparison
{
    PeakKey key = PeakKey::module; ///< of `rows`
    std::vector<PeakRow> rows;
    std::string cause; ///< how the peaks differ, and what explains most of the difference: one or two sentences
    std::vector<std::string> notes; ///< sentences: what is not compared, and why
};

/// Compares two peaks. A key that a file lacks is replaced by the category, and a note says so.
PeakComparison comparePeaks(const PeakSide& a, const PeakSide& b, PeakKey key);

/// Two peaks beside each other, by each key.
struct PeakTables
{
    std::string nameA;
    std::string nameB;
    Bytes peakA = 0;
    Bytes peakB = 0;
    std::array<PeakComparison, 3> by; ///< by PeakKey
    OpChanges ops;
};
using PeakTablesPtr = std::shared_ptr<const PeakTables>;
PeakTablesPtr peakTables(const PeakSide& a, const PeakSide& b);

} // namespace headroom
