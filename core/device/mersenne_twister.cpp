// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/device/mersenne_twister.h"

#include <algorithm>
#include <array>
#include <bit>
#include <bitset>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace headroom::sim {
namespace {

constexpr std::size_t stateWords = at::MERSENNE_STATE_N; // 624
constexpr std::size_t middleWord = at::MERSENNE_STATE_M; // 397
constexpr std::uint32_t upperBit = at::UMASK;
constexpr std::uint32_t lowerBits = at::LMASK;
constexpr std::uint32_t twist = at::MATRIX_A;

constexpr std::size_t degree = 19937; ///< degree of the characteristic polynomial, and number of state bits
constexpr std::size_t bits = 64;
constexpr std::size_t words = degree / bits + 1;

/// Least number of batches for which a jump takes less time than single steps.
constexpr std::uint64_t fewestJumped = 1500;

using Polynomial = std::array<std::uint64_t, words>; ///< coefficients 0 or 1, degree below `degree`
using Window = std::array<std::uint32_t, stateWords>; ///< a state: consecutive words of the sequence

std::uint32_t nextWord(const std::uint32_t* window)
{
    const std::uint32_t mixed = (window[0] & upperBit) | (window[1] & lowerBits);
    return window[middleWord] ^ (mixed >> 1) ^ ((mixed & 1) != 0 ? twist : 0);
}

/// Exponents of the characteristic polynomial except for the highest, by the formula of Matsumoto and Nishimura
/// ("Mersenne Twister", 1998, appendix A). The number of exponents is 134.
std::vector<std::size_t> characteristicExponents()
{
    using Bits = std::bitset<degree + 1>;
    const auto outer = [](const Bits& p) { return (p << stateWords) ^ (p << middleWord); };
    const auto inner = [](const Bits& p) { return (p << (stateWords - 1)) ^ (p << (middleWord - 1)); };
    constexpr int separation = 31; // bits of the first word that are not part of the state
    Bits power(1);
    Bits sum = Bits((twist >> separation) & 1);
    for (int i = separation - 1; i >= 0; --i) {
        if (((twist >> i) & 1) != 0)
            sum ^= outer(power);
        power = inner(power);
    }
    sum ^= outer(power);
    std::vector<std::size_t> exponents;
    for (std::size_t i = 0; i < degree; ++i) {
        if (sum[i])
            exponents.push_back(i);
    }
    return exponents;
}

/// Returns `number` with a zero inserted after each bit.
std::uint64_t spread(std::uint32_t number)
{
    std::uint64_t x = number;
    x = (x | (x << 16)) & 0x0000FFFF0000FFFF;
    x = (x | (x << 8)) & 0x00FF00FF00FF00FF;
    x = (x | (x << 4)) & 0x0F0F0F0F0F0F0F0F;
    x = (x | (x << 2)) & 0x3333333333333333;
    return (x | (x << 1)) & 0x5555555555555555;
}

/// Powers of x modulo the characteristic polynomial.
class Powers
{
public:
    Powers()
        : exponents_(characteristicExponents())
    {
    }

    Polynomial power(std::uint64_t exponent) const
    {
        Polynomial result{1};
        for (int i = std::bit_width(exponent) - 1; i >= 0; --i) {
            square(result);
            if (((exponent >> i) & 1) != 0)
                multiplyByX(result);
        }
        return result;
    }

private:
    /// Adds x^shift times `chunk` to `sum`, without a reduction.
    template <std::size_t size>
    static void add(std::array<std::uint64_t, size>& sum, std::uint64_t chunk, std::size_t shift)
    {
        sum[shift / bits] ^= chunk << (shift % bits);
        if (shift % bits != 0)
            sum[shift / bits + 1] ^= chunk >> (bits - shift % bits);
    }

    void square(Polynomial& p) const
    {
        std::array<std::uint64_t, 2 * words> wide;
        for (std::size_t i = 0; i < words; ++i) {
            wide[2 * i] = spread(static_cast<std::uint32_t>(p[i]));
            wide[2 * i + 1] = spread(static_cast<std::uint32_t>(p[i] >> 32));
        }
        // x^degree is the sum of the other terms, at least ten words lower.
        for (std::size_t i = 2 * words - 1; i >= words; --i) {
            const std::uint64_t chunk = std::exchange(wide[i], 0);
            for (const std::size_t exponent : exponents_)
                add(wide, chunk, i * bits - degree + exponent);
        }
        std::copy_n(wide.begin(), words, p.begin());
        dropAbove(p);
    }

    void multiplyByX(Polynomial& p) const
    {
        for (std::size_t i = words - 1; i > 0; --i)
            p[i] = (p[i] << 1) | (p[i - 1] >> (bits - 1));
        p[0] <<= 1;
        dropAbove(p);
    }

    void dropAbove(Polynomial& p) const
    {
        constexpr std::size_t rest = degree % bits;
        const std::uint64_t chunk = p[words - 1] >> rest;
        p[words - 1] ^= chunk << rest;
        for (const std::size_t exponent : exponents_)
            add(p, chunk, exponent);
    }

    std::vector<std::size_t> exponents_;
};

/// Caches the polynomials of jumps: the tensors of a model have few sizes. Thread-safe.
class Jumps
{
public:
    std::shared_ptr<const Polynomial> byWords(std::uint64_t count)
    {
        constexpr std::size_t most = 256;
        const std::lock_guard lock(mutex_);
        auto& jump = jumps_[count];
        if (!jump)
            jump = std::make_shared<const Polynomial>(powers_.power(count));
        const auto result = jump;
        if (jumps_.size() > most)
            jumps_.clear();
        return result;
    }

private:
    std::mutex mutex_;
    Powers powers_;
    std::map<std::uint64_t, std::shared_ptr<const Polynomial>> jumps_;
};

/// Returns the state after `count` more words. Only a single bit of the first word belongs to a state, so the
/// polynomial cannot give the other 31 bits: the jump is shorter by a word and starts a word later.
Window later(const Window& state, std::uint64_t count)
{
    static Jumps jumps;
    const auto jump = jumps.byWords(count - 1);
    std::vector<std::uint32_t> sequence(state.begin(), state.end());
    sequence.resize(degree + 1 + stateWords);
    for (std::size_t i = stateWords; i < sequence.size(); ++i)
        sequence[i] = nextWord(&sequence[i - stateWords]);
    Window result{};
    for (std::size_t i = 0; i < degree; ++i) {
        if ((((*jump)[i / bits] >> (i % bits)) & 1) == 0)
            continue;
        const std::uint32_t* from = &sequence[i + 1];
        for (std::size_t k = 0; k < stateWords; ++k)
            result[k] ^= from[k];
    }
    return result;
}

void step(Window& state)
{
    for (std::size_t i = 0; i < stateWords; ++i) {
        const std::uint32_t mixed = (state[i] & upperBit) | (state[(i + 1) % stateWords] & lowerBits);
        state[i] = state[(i + middleWord) % stateWords] ^ (mixed >> 1) ^ ((mixed & 1) != 0 ? twist : 0);
    }
}

} // namespace

at::mt19937 afterDraws(const at::mt19937& engine, std::uint64_t count)
{
    at::mt19937_data_pod data = engine.data();
    // Each state is a batch of numbers, and left_ - 1 of the numbers are not drawn yet. A seed counts as a batch
    // without numbers left.
    const auto left = static_cast<std::uint64_t>(data.left_ - 1);
    std::uint64_t batches = count > left ? (count - left + stateWords - 1) / stateWords : 0;
    const std::uint64_t used = batches > 0 ? count - left - (batches - 1) * stateWords : data.next_ + count;
    if (count > 0) {
        data.left_ = static_cast<int>(stateWords + 1 - used);
        data.next_ = static_cast<std::uint32_t>(used);
    }
    // The jump depends on `count` alone, so that the next tensor of this size finds the jump in the cache.
    const std::uint64_t jumped = count / stateWords;
    if (jumped >= fewestJumped) {
        data.state_ = later(data.state_, jumped * stateWords);
        batches -= jumped;
    }
    for (; batches > 0; --batches)
        step(data.state_);
    at::mt19937 result;
    result.set_data(data);
    return result;
}

} // namespace headroom::sim
