// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace headroom {

/// The sizes to try, ascending: a list, or a range whose end may be open.
class Sizes
{
public:
    Sizes() = default; ///< one size: the program's own, 0
    static Sizes list(std::vector<std::int64_t> sizes); ///< sorts, and removes duplicates; at least one
    /// least, least + step, … up to `most`; 0: without an end.
    static Sizes range(std::int64_t least, std::int64_t most, std::int64_t step);

    /// Parses "8", "1,2,4", "1..64", "64..4096:64" and "1..", without an end. Without a step a range has `step`. Error
    /// (badInput): the sentence begins with the text.
    static Result<Sizes> parse(std::string_view text, std::int64_t step = 1);

    /// The sizes from `least` to `most`; 0: without an end. nullopt: none.
    std::optional<Sizes> within(std::int64_t least, std::int64_t most) const;

    bool isRange() const noexcept { return step_ > 0; }
    bool isOwn() const noexcept { return !isRange() && list_.front() == 0; }
    /// Number of sizes; of a range without an end, of sizes up to 2^40.
    std::size_t count() const noexcept;
    std::int64_t at(std::size_t index) const; ///< `index` below count()
    bool contains(std::int64_t size) const noexcept;
    /// Of a range: the index from `first` to `last` whose size has the most factors of two.
    std::size_t roundest(std::size_t first, std::size_t last) const;

private:
    std::vector<std::int64_t> list_{0};
    std::int64_t least_ = 0, most_ = 0, step_ = 0; ///< step_ 0: the list
};

} // namespace headroom
