// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/compare/peak_side.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

namespace headroom {

/// The key that groups the blocks of two peaks.
enum class PeakKey { module, line, category };

/// The bytes of one key at the peaks of two files, `a` and `b`.
struct PeakRow
{
    std::string name; ///< module below the root (empty: the root module), line of source code, or category
    bool ofCategory = false; ///< `name` is a category: the blocks have no module, or no line
    Bytes a = 0;
    Bytes b = 0;
    std::int64_t blocksA = 0;
    std::int64_t blocksB = 0;

    Bytes difference() const noexcept { return b - a; }
};

/// Returns the rows of all blocks at the two peaks, the largest differences first. The rows sum up to both peaks, and
/// the differences to the difference of the peaks.
std::vector<PeakRow> peakRows(const PeakSide& a, const PeakSide& b, PeakKey key);

/// Whether a row is of a category, and the row's name.
using PeakRowKey = std::pair<bool, std::string>;

/// Finds the rows of blocks. Lines of two versions of a script pair: in a function with the same lines in both by
/// number, otherwise by the ops that the lines run, in the same order.
class RowFinder
{
public:
    RowFinder(const PeakSide& a, const PeakSide& b, PeakKey key);

    PeakRowKey ofA(const PeakHolding& holding) const { return of(holding, linesA_); }
    PeakRowKey ofB(const PeakHolding& holding) const { return of(holding, linesB_); }

private:
    using Names = std::vector<std::string>; ///< by index in PeakSide::lines; paired lines have equal names

    PeakRowKey of(const PeakHolding& holding, const Names& lines) const;

    PeakKey key_;
    Names linesA_;
    Names linesB_;
};

/// Sorts by the size of the difference, the largest first, then by `name`.
template <class Item, class Name>
void largestFirst(std::vector<Item>& items, Name name)
{
    std::ranges::sort(items, [&](const Item& x, const Item& y) {
        const Bytes left = std::abs(x.difference());
        const Bytes right = std::abs(y.difference());
        return left != right ? left > right : name(x) < name(y);
    });
}

} // namespace headroom
