// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/predict/common_places.h"

#include <algorithm>
#include <cstdlib>

namespace headroom {

namespace {

using Keys = std::span<const std::uint64_t>;
using Places = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

/// Number of edits after which a search stops at the furthest place so far; its time is their square.
constexpr int mostEdits = 400;
constexpr int nowhere = -1;

/// Myers' search from the beginning of two sequences: how far in `a` each number of edits reaches on each diagonal. The
/// diagonal of two places is the place in `a` minus the one in `b`.
class Search
{
public:
    Search(Keys a, Keys b)
        : a_(a)
        , b_(b)
    {
    }

    /// Returns the places at which it ends, and adds the common places up to there to `places`, counted from `beginA`
    /// and `beginB`.
    std::pair<int, int> run(std::uint32_t beginA, std::uint32_t beginB, Places& places)
    {
        for (int edits = 0; edits <= mostEdits; ++edits) {
            reach_.emplace_back(static_cast<std::size_t>(2 * edits + 1), nowhere);
            for (int diagonal = -edits; diagonal <= edits; diagonal += 2) {
                int x = before(edits, diagonal).second;
                if (x == nowhere)
                    continue;
                while (x < sizeOf(a_) && x - diagonal < sizeOf(b_) && same(x, diagonal))
                    ++x;
                at(edits, diagonal) = x;
                if (x == sizeOf(a_) && x - diagonal == sizeOf(b_))
                    return wayTo(edits, diagonal, beginA, beginB, places);
            }
        }
        return wayTo(mostEdits, furthest(), beginA, beginB, places);
    }

private:
    static int sizeOf(Keys keys) { return static_cast<int>(keys.size()); }
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
            const int x = at(mostEdits, diagonal);
            return x == nowhere ? nowhere : 2 * x - diagonal;
        };
        int found = -mostEdits;
        for (int diagonal = found; diagonal <= mostEdits; diagonal += 2)
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

    std::pair<int, int> wayTo(int edits, int diagonal, std::uint32_t beginA, std::uint32_t beginB, Places& places)
    {
        const std::pair end(at(edits, diagonal), at(edits, diagonal) - diagonal);
        const auto first = static_cast<std::ptrdiff_t>(places.size());
        for (; edits >= 0; --edits) {
            const auto [other, begin] = before(edits, diagonal);
            for (int x = at(edits, diagonal); x-- > begin;)
                places.emplace_back(beginA + static_cast<std::uint32_t>(x),
                                    beginB + static_cast<std::uint32_t>(x - diagonal));
            diagonal = other;
        }
        std::reverse(places.begin() + first, places.end());
        return end;
    }

    Keys a_;
    Keys b_;
    std::vector<std::vector<int>> reach_; ///< by edits, then by diagonal
};

} // namespace

Places commonPlaces(Keys a, Keys b)
{
    Places places;
    std::size_t tail = 0;
    while (tail < std::min(a.size(), b.size()) && a[a.size() - 1 - tail] == b[b.size() - 1 - tail])
        ++tail;
    const std::size_t endA = a.size() - tail;
    const std::size_t endB = b.size() - tail;
    for (std::size_t x = 0, y = 0; x < endA && y < endB;) {
        const auto [furtherX, furtherY]
            = Search(a.subspan(x, endA - x), b.subspan(y, endB - y))
                  .run(static_cast<std::uint32_t>(x), static_cast<std::uint32_t>(y), places);
        x += static_cast<std::size_t>(furtherX);
        y += static_cast<std::size_t>(furtherY);
    }
    for (std::size_t i = 0; i < tail; ++i)
        places.emplace_back(static_cast<std::uint32_t>(endA + i), static_cast<std::uint32_t>(endB + i));
    return places;
}

} // namespace headroom
