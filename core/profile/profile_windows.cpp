// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/profile/profile_windows.h"

#include <algorithm>
#include <charconv>
#include <string_view>

namespace headroom {

namespace {

using Window = ProfileWindow;

constexpr std::string_view stepPrefix = "ProfilerStep#";

/// Returns the spans with this prefix of their names, sorted by begin.
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
    // If there are several optimizers, the last one ends the step.
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

} // namespace headroom
