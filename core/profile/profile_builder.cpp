// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/profile/profile_builder.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <span>
#include <utility>

namespace headroom {

namespace {

using FieldNames = std::span<const std::pair<std::string_view, Field>>;

/// Compares the lengths first: a trace has millions of names.
Field find(FieldNames names, std::string_view name)
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

namespace {

constexpr std::string_view modulePrefix = "nn.Module: ";

/// More events would fit neither into ids nor into memory.
constexpr std::size_t mostEvents = std::size_t{1} << 30;

std::uint64_t mixed(std::uint64_t seed, std::uint64_t value)
{
    return (seed ^ value) * 0x9e3779b97f4a7c15U + (seed >> 29);
}

} // namespace

bool ProfileBuilder::addEvent()
{
    if (++profile.events > mostEvents) {
        problem_ = "has more than " + groupedDigits(static_cast<std::int64_t>(mostEvents)) + " events";
        return false;
    }
    if (event.phase == 'i' || event.phase == 'I') {
        if (event.name == "[memory]")
            profile.blocks.push_back({event.begin, event.bytes, event.allocated, event.reserved, event.address,
                                      event.deviceType == 0 ? -1 : static_cast<int>(event.deviceId)});
        return true;
    }
    if (event.phase != 'X' || event.category == EventClass::other)
        return true;
    if (event.duration < 0) {
        ++profile.impossible;
        return true;
    }
    const Profile::Nanoseconds end = event.begin + event.duration;
    switch (event.category) {
    case EventClass::op:
        addSpan(Profile::SpanType::op);
        break;
    case EventClass::annotation:
        addSpan(Profile::SpanType::annotation);
        break;
    case EventClass::python:
        // Most events of a trace with stacks are Python frames; only modules are kept.
        if (event.name.starts_with(modulePrefix)) {
            event.name.erase(0, modulePrefix.size());
            addSpan(Profile::SpanType::module);
        }
        break;
    case EventClass::launch:
        profile.launches.push_back({event.begin, end, event.correlation, profile.texts.number(event.name), thread()});
        break;
    case EventClass::kernel:
        if (event.device < 0)
            event.device = wholeNumber(event.process).value_or(0);
        profile.kernels.push_back({event.begin, end, event.correlation, event.externalId,
                                   profile.texts.number(event.name), static_cast<int>(event.device)});
        if (!event.collective.empty())
            profile.collectives.push_back({event.duration, event.inElements, event.outElements, event.groupSize,
                                           profile.texts.number(event.collective),
                                           profile.texts.number(event.elementType),
                                           profile.texts.number(event.groupRanks)});
        break;
    default:
        break;
    }
    return true;
}

void ProfileBuilder::addSpan(Profile::SpanType type)
{
    Profile::Span span;
    span.begin = event.begin;
    span.end = event.begin + event.duration;
    span.externalId = event.externalId;
    span.sequence = event.sequence;
    span.name = profile.texts.number(event.name);
    span.hierarchy = profile.texts.number(event.hierarchy);
    span.thread = thread();
    span.arguments = arguments();
    span.type = type;
    profile.spans.push_back(span);
}

std::uint32_t ProfileBuilder::thread()
{
    event.process += '/';
    event.process += event.thread;
    if (event.process != lastThread_ || threads_.empty()) {
        lastThread_ = event.process;
        lastThreadNumber_
            = threads_.try_emplace(lastThread_, static_cast<std::uint32_t>(threads_.size())).first->second;
    }
    return lastThreadNumber_;
}

std::uint32_t ProfileBuilder::arguments()
{
    const Profile::Arguments one{profile.texts.number(event.sizes), profile.texts.number(event.strides),
                                 profile.texts.number(event.types), profile.texts.number(event.values)};
    if (one == Profile::Arguments())
        return 0;
    const std::uint64_t hash = mixed(mixed(mixed(mixed(1, one.sizes), one.strides), one.types), one.values);
    const auto [place, isNew] = argumentsAt_.try_emplace(hash, static_cast<std::uint32_t>(profile.arguments.size()));
    if (!isNew && profile.arguments[place->second] == one)
        return place->second;
    place->second = static_cast<std::uint32_t>(profile.arguments.size());
    profile.arguments.push_back(one);
    return place->second;
}

void ProfileBuilder::addDevice()
{
    profile.devices.push_back(device);
}

void ProfileBuilder::setDeviceNumber(Field field, std::string_view text)
{
    const std::int64_t number = wholeNumber(text).value_or(0);
    const auto small = static_cast<int>(number >= 0 && number < 1'000'000 ? number : 0);
    if (field == Field::number)
        device.number = small;
    else if (field == Field::memory)
        device.memory = number;
    else if (field == Field::major)
        device.computeCapability += 10 * small;
    else if (field == Field::minor)
        device.computeCapability += small;
    else if (field == Field::multiprocessors)
        device.multiprocessors = small;
}

} // namespace headroom
