// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/profile/profile_builder.h"

namespace headroom {

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
        addSpan(Profile::Kind::op);
        break;
    case EventClass::annotation:
        addSpan(Profile::Kind::annotation);
        break;
    case EventClass::python:
        // Most events of a trace with stacks are Python frames; only modules are kept.
        if (event.name.starts_with(modulePrefix)) {
            event.name.erase(0, modulePrefix.size());
            addSpan(Profile::Kind::module);
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

void ProfileBuilder::addSpan(Profile::Kind kind)
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
    span.kind = kind;
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
