// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/base/common_subsequence.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <random>

namespace headroom {
namespace {

std::size_t longestCommon(const std::vector<std::uint64_t>& a, const std::vector<std::uint64_t>& b)
{
    std::vector<std::vector<std::size_t>> best(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
    for (std::size_t i = 0; i < a.size(); ++i)
        for (std::size_t j = 0; j < b.size(); ++j)
            best[i + 1][j + 1] = a[i] == b[j] ? best[i][j] + 1 : std::max(best[i][j + 1], best[i + 1][j]);
    return best.back().back();
}

TEST(CommonSubsequence, areAsManyAsCanBe)
{
    std::mt19937 random(7);
    for (int round = 0; round < 300; ++round) {
        const auto sequence = [&] {
            std::vector<std::uint64_t> keys(random() % 40);
            for (std::uint64_t& key : keys)
                key = random() % (1 + static_cast<unsigned>(round) % 9);
            return keys;
        };
        const auto a = sequence();
        const auto b = sequence();
        const auto places = commonSubsequence(a, b);
        ASSERT_EQ(places.size(), longestCommon(a, b)) << "round " << round;
        for (std::size_t i = 0; i < places.size(); ++i) {
            ASSERT_EQ(a[places[i].first], b[places[i].second]);
            ASSERT_TRUE(i == 0 || (places[i - 1].first < places[i].first && places[i - 1].second < places[i].second));
        }
    }
}

TEST(CommonSubsequence, areFoundInLittleTimeWhereNothingIsAlike)
{
    std::vector<std::uint64_t> a(100'000), b(100'000);
    for (std::size_t i = 0; i < a.size(); ++i) {
        a[i] = i;
        b[i] = i % 97 == 0 ? i : a.size() + i;
    }
    const auto begin = std::chrono::steady_clock::now();
    const auto places = commonSubsequence(a, b);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
    EXPECT_GT(places.size(), a.size() / 97 / 2);
}

TEST(CommonSubsequence, areOnlyThoseAtTheEndsWhereMoreDiffersThanIsAllowed)
{
    const std::vector<std::uint64_t> a{1, 2, 10, 3, 11, 4};
    const std::vector<std::uint64_t> b{1, 2, 20, 3, 21, 4};
    EXPECT_EQ(longestCommonSubsequence(a, b, 4), (CommonSubsequence{{0, 0}, {1, 1}, {3, 3}, {5, 5}}));
    EXPECT_EQ(longestCommonSubsequence(a, b, 3), (CommonSubsequence{{0, 0}, {1, 1}, {5, 5}}));
    EXPECT_EQ(longestCommonSubsequence(a, a, 0).size(), a.size());
    EXPECT_EQ(longestCommonSubsequence({}, b, 9), CommonSubsequence());
}

} // namespace
} // namespace headroom
