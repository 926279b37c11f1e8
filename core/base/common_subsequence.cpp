// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/base/common_subsequence.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>

namespace headroom {
namespace {

using EditKeys = std::span<const std::uint64_t>;

constexpr int nowhere = -1;

int sizeOf(EditKeys keys)
{
    return static_cast<int>(keys.size());
}

/// Myers' search from the beginning of two sequences: how far in `a` each number of edits reaches on each diagonal. The
/// diagonal of two places is the place in `a` minus the place in `b`.
class EditSearch
{
public:
    EditSearch(EditKeys a, EditKeys b, int mostEdits)
        : a_(a)
        , b_(b)
        , mostEdits_(mostEdits)
    {
    }

    /// Returns whether mostEdits lead to the end of both sequences.
    bool run()
    {
        for (int edits = 0; edits <= mostEdits_; ++edits) {
            reach_.emplace_back(static_cast<std::size_t>(2 * edits + 1), nowhere);
            for (int diagonal = -edits; diagonal <= edits; diagonal += 2) {
                int x = before(edits, diagonal).second;
                if (x == nowhere)
                    continue;
                while (x < sizeOf(a_) && x - diagonal < sizeOf(b_) && same(x, diagonal))
                    ++x;
                at(edits, diagonal) = x;
                if (x == sizeOf(a_) && x - diagonal == sizeOf(b_)) {
                    lastDiagonal_ = diagonal;
                    return true;
                }
            }
        }
        lastDiagonal_ = furthest();
        return false;
    }

    /// Returns the places at which the search ended, and adds the common places up to there to `places`, counted from
    /// `beginA` and `beginB`.
    std::pair<std::size_t, std::size_t> way(std::size_t beginA, std::size_t beginB, CommonSubsequence& places)
    {
        int edits = static_cast<int>(reach_.size()) - 1;
        int diagonal = lastDiagonal_;
        const int end = at(edits, diagonal);
        const int endDiagonal = diagonal;
        const auto first = static_cast<std::ptrdiff_t>(places.size());
        for (; edits >= 0; --edits) {
            const auto [other, begin] = before(edits, diagonal);
            for (int x = at(edits, diagonal); x-- > begin;)
                places.emplace_back(static_cast<std::uint32_t>(beginA) + static_cast<std::uint32_t>(x),
                                    static_cast<std::uint32_t>(beginB) + static_cast<std::uint32_t>(x - diagonal));
            diagonal = other;
        }
        std::reverse(places.begin() + first, places.end());
        return {static_cast<std::size_t>(end), static_cast<std::size_t>(end - endDiagonal)};
    }

private:
    bool same(int x, int diagonal) const
    {
        return a_[static_cast<std::size_t>(x)] == b_[static_cast<std::size_t>(x - diagonal)];
    }

    int& at(int edits, int diagonal)
    {
        return reach_[static_cast<std::size_t>(edits)][static_cast<std::size_t>(diagonal + edits)];
    }

    int furthest()
    {
        const auto distance = [&](int diagonal) {
            const int x = at(mostEdits_, diagonal);
            return x == nowhere ? nowhere : 2 * x - diagonal;
        };
        int found = -mostEdits_;
        for (int diagonal = found; diagonal <= mostEdits_; diagonal += 2)
            if (distance(diagonal) > distance(found))
                found = diagonal;
        return found;
    }

    /// The diagonal before the last edit, and the place in `a` after it.
    std::pair<int, int> before(int edits, int diagonal)
    {
        if (edits == 0)
            return {0, 0};
        const auto reached = [&](int other) { return std::abs(other) < edits ? at(edits - 1, other) : nowhere; };
        const int left = reached(diagonal - 1);
        const int above = reached(diagonal + 1);
        const int skipsA = left != nowhere && left < sizeOf(a_) ? left + 1 : nowhere;
        const int skipsB = above != nowhere && above - diagonal <= sizeOf(b_) ? above : nowhere;
        return skipsA >= skipsB ? std::pair(diagonal - 1, skipsA) : std::pair(diagonal + 1, skipsB);
    }

    EditKeys a_;
    EditKeys b_;
    int mostEdits_;
    int lastDiagonal_ = 0;
    std::vector<std::vector<int>> reach_; ///< by edits, then by diagonal
};

/// Number of equal elements at the end of both sequences, which need no search.
std::size_t commonTail(EditKeys a, EditKeys b)
{
    std::size_t tail = 0;
    while (tail < std::min(a.size(), b.size()) && a[a.size() - 1 - tail] == b[b.size() - 1 - tail])
        ++tail;
    return tail;
}

std::size_t commonHead(EditKeys a, EditKeys b)
{
    return static_cast<std::size_t>(std::distance(a.begin(), std::ranges::mismatch(a, b).in1));
}

void addEqual(std::size_t beginA, std::size_t beginB, std::size_t count, CommonSubsequence& places)
{
    for (std::size_t i = 0; i < count; ++i)
        places.emplace_back(static_cast<std::uint32_t>(beginA + i), static_cast<std::uint32_t>(beginB + i));
}

} // namespace

// A search stops at the furthest place so far after mostEditsInARow edits; the time of a search is their square.
CommonSubsequence commonSubsequence(EditKeys a, EditKeys b, int mostEditsInARow)
{
    CommonSubsequence places;
    const std::size_t tail = commonTail(a, b);
    const std::size_t endA = a.size() - tail;
    const std::size_t endB = b.size() - tail;
    for (std::size_t x = 0, y = 0; x < endA && y < endB;) {
        EditSearch search(a.subspan(x, endA - x), b.subspan(y, endB - y), mostEditsInARow);
        search.run();
        const auto [furtherX, furtherY] = search.way(x, y, places);
        x += furtherX;
        y += furtherY;
    }
    addEqual(endA, endB, tail, places);
    return places;
}

CommonSubsequence longestCommonSubsequence(EditKeys a, EditKeys b, int mostEdits)
{
    CommonSubsequence places;
    const std::size_t tail = commonTail(a, b);
    const std::size_t endA = a.size() - tail;
    const std::size_t endB = b.size() - tail;
    EditSearch search(a.first(endA), b.first(endB), mostEdits);
    if (search.run())
        search.way(0, 0, places);
    else
        addEqual(0, 0, commonHead(a.first(endA), b.first(endB)), places);
    addEqual(endA, endB, tail, places);
    return places;
}

} // namespace headroom
