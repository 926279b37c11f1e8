// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/device/mersenne_twister.h"

#include <gtest/gtest.h>

namespace headroom::sim {
namespace {

void expectSame(const at::mt19937& got, const at::mt19937& expected, std::uint64_t before, std::uint64_t count)
{
    const at::mt19937_data_pod a = got.data();
    const at::mt19937_data_pod b = expected.data();
    EXPECT_EQ(a.state_, b.state_) << count << " draws after " << before;
    EXPECT_EQ(a.left_, b.left_) << count << " draws after " << before;
    EXPECT_EQ(a.next_, b.next_) << count << " draws after " << before;
    EXPECT_EQ(a.seed_, b.seed_);
    EXPECT_EQ(a.seeded_, b.seeded_);
}

TEST(MersenneTwister, DrawsAreSkipped)
{
    constexpr std::uint64_t batch = at::MERSENNE_STATE_N;
    for (const std::uint64_t before :
         {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{16}, batch - 1, batch, batch + 1, 5 * batch + 300}) {
        for (const std::uint64_t count :
             {std::uint64_t{0}, std::uint64_t{1}, batch - 1, batch, batch + 1, std::uint64_t{70'000}, 1500 * batch,
              1500 * batch + 1, 1501 * batch - 1, std::uint64_t{2'359'296}}) {
            at::mt19937 engine(before * 7919 + count);
            for (std::uint64_t i = 0; i < before; ++i)
                engine();
            const at::mt19937 jumped = afterDraws(engine, count);
            for (std::uint64_t i = 0; i < count; ++i)
                engine();
            expectSame(jumped, engine, before, count);
        }
    }
}

TEST(MersenneTwister, JumpsAddUp)
{
    // More numbers than a test can draw: 2^40 at once are 64 times 2^34.
    at::mt19937 engine(5489);
    for (int i = 0; i < 64; ++i)
        engine = afterDraws(engine, std::uint64_t{1} << 34);
    expectSame(afterDraws(at::mt19937(5489), std::uint64_t{1} << 40), engine, 0, std::uint64_t{1} << 40);
}

} // namespace
} // namespace headroom::sim
