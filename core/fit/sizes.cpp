// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/fit/sizes.h"

#include "core/base/try.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>
#include <string>

namespace headroom {
namespace {

constexpr std::int64_t largestSize = std::int64_t{1} << 40;

std::optional<std::int64_t> numberIn(std::string_view text)
{
    std::int64_t number = 0;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
    const bool isWhole = problem == std::errc() && end == text.data() + text.size();
    return isWhole && number > 0 && number <= largestSize ? std::optional(number) : std::nullopt;
}

} // namespace

Sizes Sizes::list(std::vector<std::int64_t> sizes)
{
    Sizes result;
    result.list_ = std::move(sizes);
    std::ranges::sort(result.list_);
    const auto repeated = std::ranges::unique(result.list_);
    result.list_.erase(repeated.begin(), repeated.end());
    return result;
}

Sizes Sizes::range(std::int64_t least, std::int64_t most, std::int64_t step)
{
    Sizes result;
    result.least_ = least;
    result.most_ = most > 0 ? most : largestSize;
    result.step_ = step;
    return result;
}

Result<Sizes> Sizes::parse(std::string_view text, std::int64_t step)
{
    const Error wrong = badInput("`" + std::string(text)
                                 + "`: expected sizes, such as 8, 1,2,4, 1..64 or 64..4096:64, whole numbers above 0");
    if (const std::size_t dots = text.find(".."); dots != std::string_view::npos) {
        std::string_view end = text.substr(dots + 2);
        if (const std::size_t colon = end.find(':'); colon != std::string_view::npos) {
            const std::optional<std::int64_t> given = numberIn(end.substr(colon + 1));
            if (!given)
                return wrong;
            step = *given;
            end = end.substr(0, colon);
        }
        const std::optional<std::int64_t> least = numberIn(text.substr(0, dots));
        const std::optional<std::int64_t> most = end.empty() ? 0 : numberIn(end);
        if (!least || !most || (*most > 0 && *most < *least))
            return wrong;
        return range(*least, *most, step);
    }
    std::vector<std::int64_t> sizes;
    while (true) {
        const std::size_t comma = text.find(',');
        const std::optional<std::int64_t> size = numberIn(text.substr(0, comma));
        if (!size)
            return wrong;
        sizes.push_back(*size);
        if (comma == std::string_view::npos)
            return list(std::move(sizes));
        text.remove_prefix(comma + 1);
    }
}

std::optional<Sizes> Sizes::within(std::int64_t least, std::int64_t most) const
{
    const std::int64_t end = most > 0 ? most : largestSize;
    if (isRange()) {
        const std::int64_t skipped = std::max<std::int64_t>(0, (least - least_ + step_ - 1) / step_);
        const std::int64_t first = least_ + skipped * step_;
        const std::int64_t last = std::min(most_, end);
        return first <= last ? std::optional(range(first, last, step_)) : std::nullopt;
    }
    std::vector<std::int64_t> inside;
    std::ranges::copy_if(list_, std::back_inserter(inside),
                         [&](std::int64_t size) { return size >= least && size <= end; });
    return inside.empty() ? std::nullopt : std::optional(list(std::move(inside)));
}

std::size_t Sizes::count() const noexcept
{
    return isRange() ? static_cast<std::size_t>((most_ - least_) / step_ + 1) : list_.size();
}

std::int64_t Sizes::at(std::size_t index) const
{
    return isRange() ? least_ + static_cast<std::int64_t>(index) * step_ : list_[index];
}

bool Sizes::contains(std::int64_t size) const noexcept
{
    return isRange() ? size >= least_ && size <= most_ && (size - least_) % step_ == 0
                     : std::ranges::binary_search(list_, size);
}

std::size_t Sizes::roundest(std::size_t first, std::size_t last) const
{
    for (std::int64_t factor = largestSize; factor > 1; factor /= 2) {
        const std::int64_t size = at(last) / factor * factor;
        if (size >= at(first) && (size - least_) % step_ == 0)
            return static_cast<std::size_t>((size - least_) / step_);
    }
    return last;
}

} // namespace headroom
