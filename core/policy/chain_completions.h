// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/plan/chain_problem.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

namespace headroom {

/// The least that the rest of a plan costs after each position of a chain, by what is left of a single memory
/// constraint: a knapsack by dynamic programming, for each position. What is left comes in buckets, and each value is
/// the least in a bucket, so that no plan costs less.
class ChainCompletions
{
public:
    /// An option of an arc.
    struct Option
    {
        std::size_t first = 0, last = 0; ///< positions of the arc
        float cost = 0;
        float units = 0; ///< memory taken
    };
    struct Buckets
    {
        float begin = 0, end = 0; ///< what the rest of a plan takes at least and at most, from any position
        float width = 0; ///< units
    };

    /// `options` ascend by `first`. A unit that stays unused costs `price`. A plan may exceed the constraint by
    /// `tolerance` units, less than a bucket.
    ChainCompletions(std::span<const Option> options, std::size_t positions, const Buckets& buckets, float price,
                     float tolerance)
        : begin_(buckets.begin - 2 * buckets.width)
        , width_(buckets.width)
        , least_(positions + 1,
                 std::vector<float>(static_cast<std::size_t>((buckets.end - begin_) / width_) + 2,
                                    std::numeric_limits<float>::infinity()))
    {
        for (std::size_t bucket = 0; bucket < size(); ++bucket)
            if (const float left = begin_ + width_ * static_cast<float>(bucket); left + width_ >= -tolerance)
                least_.back()[bucket] = price * std::max(left, 0.0F);
        for (std::size_t number = options.size(); number-- > 0;)
            add(options[number]);
    }

    std::size_t size() const { return least_.front().size(); } ///< number of buckets

    /// Infinite: no rest of a plan fits.
    float least(std::size_t position, float left) const
    {
        const auto bucket = static_cast<std::size_t>(std::max(0.0F, (left - begin_) / width_));
        return least_[position][std::min(bucket, size() - 1)];
    }

private:
    /// After the option, what is left of a bucket is in two buckets.
    void add(const Option& option)
    {
        std::vector<float>& to = least_[option.first];
        const std::vector<float>& from = least_[option.last];
        const auto shift = static_cast<std::ptrdiff_t>(std::ceil(option.units / width_));
        const auto count = static_cast<std::ptrdiff_t>(size());
        const std::ptrdiff_t end = std::clamp<std::ptrdiff_t>(count + shift - 1, 0, count);
        for (std::ptrdiff_t bucket = std::max<std::ptrdiff_t>(0, shift); bucket < end; ++bucket) {
            const float rest = std::min(from[at(bucket - shift)], from[at(bucket - shift + 1)]);
            to[at(bucket)] = std::min(to[at(bucket)], option.cost + rest);
        }
        for (std::ptrdiff_t bucket = end; bucket < count; ++bucket) // as much as the last bucket
            to[at(bucket)] = std::min(to[at(bucket)], option.cost + from.back());
    }
    static std::size_t at(std::ptrdiff_t bucket) { return static_cast<std::size_t>(bucket); }

    float begin_, width_;
    std::vector<std::vector<float>> least_; ///< by position, by bucket
};

} // namespace headroom
