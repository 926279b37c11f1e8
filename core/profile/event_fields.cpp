// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/profile/event_fields.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <span>
#include <utility>

namespace headroom {

namespace {

using Names = std::span<const std::pair<std::string_view, Field>>;

/// Compares the lengths first: a trace has millions of names.
Field find(Names names, std::string_view name)
{
    for (const auto& [known, field] : names)
        if (known.size() == name.size() && known == name)
            return field;
    return Field::none;
}

} // namespace

Field eventField(std::string_view key)
{
    using enum Field;
    static constexpr std::array<std::pair<std::string_view, Field>, 8> names{{{"ph", phase},
                                                                              {"cat", category},
                                                                              {"name", Field::name},
                                                                              {"pid", process},
                                                                              {"tid", thread},
                                                                              {"ts", begin},
                                                                              {"dur", duration},
                                                                              {"args", arguments}}};
    return find(names, key);
}

Field argumentField(std::string_view key)
{
    using enum Field;
    static constexpr std::array<std::pair<std::string_view, Field>, 24> names{{{"External id", externalId},
                                                                               {"external id", externalId},
                                                                               {"correlation", correlation},
                                                                               {"Sequence number", sequence},
                                                                               {"device", device},
                                                                               {"Input Dims", sizes},
                                                                               {"Input dims", sizes},
                                                                               {"Input Strides", strides},
                                                                               {"Input type", types},
                                                                               {"Concrete Inputs", values},
                                                                               {"Module Hierarchy", hierarchy},
                                                                               {"Bytes", bytes},
                                                                               {"Addr", address},
                                                                               {"Total Allocated", allocated},
                                                                               {"Total Reserved", reserved},
                                                                               {"Device Type", deviceType},
                                                                               {"Device Id", deviceId},
                                                                               {"Collective name", collective},
                                                                               {"dtype", elementType},
                                                                               {"In msg nelems", inElements},
                                                                               {"Out msg nelems", outElements},
                                                                               {"Group size", groupSize},
                                                                               {"Process Group Ranks", groupRanks},
                                                                               {"id", number}}};
    return find(names, key);
}

Field deviceField(std::string_view key)
{
    using enum Field;
    static constexpr std::array<std::pair<std::string_view, Field>, 6> names{{{"id", number},
                                                                              {"name", Field::name},
                                                                              {"totalGlobalMem", memory},
                                                                              {"computeMajor", major},
                                                                              {"computeMinor", minor},
                                                                              {"numSms", multiprocessors}}};
    return find(names, key);
}

EventClass eventClass(std::string_view category)
{
    using enum EventClass;
    static constexpr std::array<std::pair<std::string_view, EventClass>, 14> classes{{
        {"cpu_op", op},
        {"cuda_runtime", launch},
        {"kernel", kernel},
        {"user_annotation", annotation},
        {"python_function", python},
        {"cpu_instant_event", instant},
        {"gpu_memcpy", kernel},
        {"gpu_memset", kernel},
        {"cuda_driver", launch},
        {"Operator", op},
        {"Runtime", launch},
        {"Kernel", kernel},
        {"Memcpy", kernel},
        {"Memset", kernel},
    }};
    const auto found = std::ranges::find(classes, category, &std::pair<std::string_view, EventClass>::first);
    return found == classes.end() ? other : found->second;
}

void EventFields::clear()
{
    phase = 0;
    category = EventClass::other;
    for (std::string* one : {&name, &process, &thread, &sizes, &strides, &types, &values, &hierarchy, &collective,
                             &elementType, &groupRanks})
        one->clear();
    begin = duration = inElements = outElements = groupSize = 0;
    externalId = correlation = bytes = deviceType = 0;
    sequence = device = allocated = reserved = deviceId = -1;
    address = 0;
}

std::string* EventFields::text(Field field)
{
    switch (field) {
    case Field::name:
        return &name;
    case Field::process:
        return &process;
    case Field::thread:
        return &thread;
    case Field::sizes:
        return &sizes;
    case Field::strides:
        return &strides;
    case Field::types:
        return &types;
    case Field::values:
        return &values;
    case Field::hierarchy:
        return &hierarchy;
    case Field::collective:
        return &collective;
    case Field::elementType:
        return &elementType;
    case Field::groupRanks:
        return &groupRanks;
    default:
        return nullptr;
    }
}

bool EventFields::setNumber(Field field, std::string_view text)
{
    if (field == Field::begin || field == Field::duration) {
        const auto time = nanoseconds(text);
        (field == Field::begin ? begin : duration) = time.value_or(0);
        return time.has_value();
    }
    if (field == Field::address) {
        const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), address);
        return problem == std::errc();
    }
    std::int64_t* const target = field == Field::externalId ? &externalId
        : field == Field::correlation                       ? &correlation
        : field == Field::sequence                          ? &sequence
        : field == Field::device                            ? &device
        : field == Field::bytes                             ? &bytes
        : field == Field::allocated                         ? &allocated
        : field == Field::reserved                          ? &reserved
        : field == Field::deviceType                        ? &deviceType
        : field == Field::deviceId                          ? &deviceId
        : field == Field::inElements                        ? &inElements
        : field == Field::outElements                       ? &outElements
        : field == Field::groupSize                         ? &groupSize
                                                            : nullptr;
    if (!target)
        return true;
    const auto number = wholeNumber(text);
    *target = number.value_or(0);
    return number.has_value();
}

std::optional<Profile::Nanoseconds> nanoseconds(std::string_view microseconds)
{
    // A double cannot hold a date in nanoseconds.
    constexpr std::int64_t most = std::int64_t{1} << 61;
    const char* const end = microseconds.data() + microseconds.size();
    std::int64_t whole = 0;
    auto [rest, problem] = std::from_chars(microseconds.data(), end, whole);
    if (problem != std::errc() || whole > most / 1000 || whole < -most / 1000)
        return std::nullopt;
    std::int64_t fraction = 0;
    if (rest != end && *rest == '.') {
        std::int64_t place = 100;
        for (++rest; rest != end && *rest >= '0' && *rest <= '9'; ++rest, place /= 10)
            fraction += (*rest - '0') * place;
    }
    if (rest == end)
        return whole * 1000 + (microseconds.front() == '-' ? -fraction : fraction);
    double value = 0; // the number has an exponent
    if (std::from_chars(microseconds.data(), end, value).ec != std::errc() || !(std::abs(value) < 1e15))
        return std::nullopt;
    return std::llround(value * 1000);
}

std::optional<std::int64_t> wholeNumber(std::string_view text)
{
    std::int64_t number = 0;
    const auto [rest, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (problem != std::errc())
        return std::nullopt;
    return number;
}

} // namespace headroom
