// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/profile/profile_collectives.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace headroom {
namespace {

/// Words in c10d's names of collectives. A word that is part of another one follows it.
constexpr auto kinds = std::to_array<std::pair<std::string_view, CollectiveKind>>({
    {"reduce_scatter", CollectiveKind::reduceScatter},
    {"allreduce", CollectiveKind::allReduce},
    {"allgather", CollectiveKind::allGather},
    {"all_to_all", CollectiveKind::allToAll},
    {"alltoall", CollectiveKind::allToAll},
    {"broadcast", CollectiveKind::broadcast},
    {"reduce", CollectiveKind::reduce},
});

constexpr auto elementBytes = std::to_array<std::pair<std::string_view, int>>({
    {"Float", 4},
    {"Double", 8},
    {"Half", 2},
    {"BFloat16", 2},
    {"Int", 4},
    {"Long", 8},
    {"Byte", 1},
    {"Char", 1},
    {"Bool", 1},
    {"Float8_e4m3fn", 1},
    {"Float8_e5m2", 1},
});

std::vector<std::uint32_t> numbersIn(std::string_view text)
{
    std::vector<std::uint32_t> numbers;
    for (const char* at = text.data(); at != text.data() + text.size();) {
        std::uint32_t number = 0;
        const auto [rest, error] = std::from_chars(at, text.data() + text.size(), number);
        if (error == std::errc())
            numbers.push_back(number);
        at = error == std::errc() ? rest : at + 1;
    }
    return numbers;
}

/// Returns the members of a group. If the list in the trace is cut off, they follow from the first two.
std::vector<std::uint32_t> ranksOf(std::string_view text, std::int64_t size)
{
    std::vector<std::uint32_t> ranks = numbersIn(text);
    if (std::ssize(ranks) == size)
        return ranks;
    const std::uint32_t first = ranks.empty() ? 0 : ranks[0];
    const std::uint32_t stride = ranks.size() > 1 && ranks[1] > first ? ranks[1] - first : 1;
    ranks.clear();
    for (std::int64_t i = 0; i < size; ++i)
        ranks.push_back(first + static_cast<std::uint32_t>(i) * stride);
    return ranks;
}

} // namespace

std::vector<CollectiveSample> collectivesOf(const Profile& profile, std::int64_t ranksPerNode)
{
    std::vector<CollectiveSample> samples;
    for (const Profile::Collective& collective : profile.collectives) {
        const std::string_view name = profile.texts[collective.name];
        const auto kind = std::ranges::find_if(
            kinds, [&](const auto& known) { return name.find(known.first) != std::string_view::npos; });
        const auto bytes = std::ranges::find(elementBytes, profile.texts[collective.elementType],
                                             &std::pair<std::string_view, int>::first);
        if (kind == kinds.end() || bytes == elementBytes.end() || collective.groupSize < 2
            || collective.groupSize > 1 << 20)
            continue;
        const std::int64_t elements = std::max(collective.in, collective.out);
        samples.push_back({kind->second, static_cast<double>(elements * bytes->second),
                           groupShape(ranksOf(profile.texts[collective.ranks], collective.groupSize), ranksPerNode),
                           static_cast<double>(collective.duration) / 1e3});
    }
    return samples;
}

} // namespace headroom
