// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/profile/profile.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

namespace headroom {

Profile::Text Profile::Texts::number(std::string_view text)
{
    if (const auto known = numbers_.find(text); known != numbers_.end())
        return known->second;
    const auto number = static_cast<Text>(texts_.size());
    numbers_.emplace(texts_.emplace_back(text), number);
    return number;
}

namespace {

using Window = ProfileWindow;

constexpr std::string_view stepPrefix = "ProfilerStep#";

/// Returns the spans with names of this prefix, sorted by begin.
std::vector<Profile::Span> named(const Profile& profile, std::string_view prefix)
{
    std::vector<bool> wanted(profile.texts.size());
    for (Profile::Text text = 0; text < profile.texts.size(); ++text)
        wanted[text] = profile.texts[text].starts_with(prefix);
    std::vector<Profile::Span> found;
    std::ranges::copy_if(profile.spans, std::back_inserter(found), [&](const auto& span) { return wanted[span.name]; });
    std::ranges::sort(found, {}, &Profile::Span::begin);
    return found;
}

std::vector<Window> namedSteps(const Profile& profile)
{
    std::vector<Window> windows;
    for (const Profile::Span& span : named(profile, stepPrefix)) {
        const std::string_view name = profile.texts[span.name];
        Window window{std::string(name), 0, span.begin, span.end};
        std::from_chars(name.data() + stepPrefix.size(), name.data() + name.size(), window.number);
        windows.push_back(std::move(window));
    }
    return windows;
}

/// Returns the window of all events in the trace.
Window wholeTrace(const Profile& profile)
{
    Window window{"the whole trace", 1, 0, 0};
    bool first = true;
    const auto widen = [&](const auto& events) {
        for (const auto& event : events) {
            window.begin = first ? event.begin : std::min(window.begin, event.begin);
            window.end = first ? event.end + 1 : std::max(window.end, event.end + 1);
            first = false;
        }
    };
    widen(profile.spans);
    widen(profile.launches);
    widen(profile.kernels);
    return window;
}

std::vector<Window> betweenOptimizerSteps(const Profile& profile)
{
    std::vector<Profile::Span> steps = named(profile, "Optimizer.step#");
    const Window all = wholeTrace(profile);
    if (steps.size() < 2)
        return {all};
    // With several optimizers, the last optimizer ends the step.
    std::erase_if(steps, [last = steps.back().name](const auto& span) { return span.name != last; });
    std::vector<Window> windows;
    Profile::Nanoseconds begin = all.begin;
    for (const Profile::Span& span : steps) {
        const auto number = static_cast<std::int64_t>(windows.size() + 1);
        windows.push_back({"step " + std::to_string(number), number, begin, span.end, 0, !windows.empty()});
        begin = span.end;
    }
    return windows;
}

} // namespace

std::vector<ProfileWindow> profileWindows(const Profile& profile)
{
    std::vector<Window> windows = namedSteps(profile);
    if (windows.empty())
        windows = betweenOptimizerSteps(profile);
    for (const Profile::Span& span : profile.spans) {
        const auto after = std::ranges::upper_bound(windows, span.begin, {}, &Window::begin);
        if (after != windows.begin() && span.begin < std::prev(after)->end)
            ++std::prev(after)->spans;
    }
    const std::size_t most = windows.empty() ? 0 : std::ranges::max(windows, {}, &Window::spans).spans;
    for (Window& window : windows)
        window.whole = window.whole && 2 * window.spans >= most;
    return windows;
}

Result<ProfileWindow> chooseWindow(const std::vector<ProfileWindow>& windows, std::optional<std::int64_t> number,
                                   const std::string& name)
{
    if (!number) {
        const auto last = std::find_if(windows.rbegin(), windows.rend(), [](const Window& one) { return one.whole; });
        return last == windows.rend() ? windows.back() : *last;
    }
    const auto found = std::ranges::find(windows, *number, &Window::number);
    if (found != windows.end())
        return *found;
    return badInput(name + " has no step " + std::to_string(*number) + ": expected --profile-step to be between "
                    + std::to_string(windows.front().number) + " and " + std::to_string(windows.back().number));
}

namespace {

/// Words in c10d's names of collectives. A word that is part of another word comes after that word.
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

/// Returns the members of a group. If the list in the trace is cut off, the first two determine the members.
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
