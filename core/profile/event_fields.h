// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/profile/profile.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace headroom {

/// Fields of an event, of its "args" and of a device, as far as they are read.
enum class Field : std::uint8_t {
    none,
    phase,
    category,
    name,
    process,
    thread,
    begin,
    duration,
    arguments,
    externalId,
    correlation,
    sequence,
    device,
    sizes,
    strides,
    types,
    values,
    hierarchy,
    bytes,
    address,
    allocated,
    reserved,
    deviceType,
    deviceId,
    // of NCCL's kernels
    collective,
    elementType,
    inElements,
    outElements,
    groupSize,
    groupRanks,
    // of a device
    number,
    memory,
    major,
    minor,
    multiprocessors,
};
Field eventField(std::string_view key);
Field argumentField(std::string_view key);
Field deviceField(std::string_view key);

/// What kind of event a category is; Kineto renamed them after torch 1.9.
enum class EventClass : std::uint8_t { other, op, annotation, python, launch, kernel, instant };
EventClass eventClass(std::string_view category);

/// An event while its fields come in. Its texts keep their memory from one event to the next.
struct EventFields
{
    char phase = 0;
    EventClass category = EventClass::other;
    std::string name, process, thread, sizes, strides, types, values, hierarchy;
    std::string collective, elementType, groupRanks;
    Profile::Nanoseconds begin = 0;
    Profile::Nanoseconds duration = 0;
    std::int64_t externalId = 0;
    std::int64_t correlation = 0;
    std::int64_t sequence = -1;
    std::int64_t device = -1;
    std::int64_t bytes = 0;
    std::int64_t allocated = -1;
    std::int64_t reserved = -1;
    std::int64_t deviceType = 0;
    std::int64_t deviceId = -1;
    std::int64_t inElements = 0;
    std::int64_t outElements = 0;
    std::int64_t groupSize = 0;
    std::uint64_t address = 0;

    void clear();
    /// The text that a field of lists or of words is kept in; null: it is a number or not wanted.
    std::string* text(Field field);
    /// False: no such number can be, as text says it.
    bool setNumber(Field field, std::string_view text);
};

/// "1695835542514261.123", microseconds, as nanoseconds; none: no number, or none of this age of the world.
std::optional<Profile::Nanoseconds> nanoseconds(std::string_view microseconds);

/// A whole number; one with a fraction is cut. None: no number or out of range.
std::optional<std::int64_t> wholeNumber(std::string_view text);

} // namespace headroom
