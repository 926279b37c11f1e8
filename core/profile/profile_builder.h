// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/profile/profile.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace headroom {

/// The fields that are read from an event, from its "args" and from a device.
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

/// The class of an event by category; Kineto renamed the categories after torch 1.9.
enum class EventClass : std::uint8_t { other, op, annotation, python, launch, kernel, instant };
EventClass eventClass(std::string_view category);

/// An event while the fields are read. The strings keep allocated memory for the next event.
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
    /// Returns the string for a field of lists or words; null for a number, or a field that is not used.
    std::string* text(Field field);
    /// Parses a number into a field. Returns false if `text` is not a valid number for the field.
    bool setNumber(Field field, std::string_view text);
};

/// Converts microseconds such as "1695835542514261.123" to nanoseconds; nullopt: no number, or out of range.
std::optional<Profile::Nanoseconds> nanoseconds(std::string_view microseconds);

/// Parses a whole number; a fraction is cut off. Nullopt: no number, or out of range.
std::optional<std::int64_t> wholeNumber(std::string_view text);

/// Builds a Profile from events, keeping only the fields that are used.
class ProfileBuilder
{
public:
    EventFields event; ///< the event being read
    Profile::Device device;
    Profile profile;

    bool addEvent(); ///< returns false on failure: problem() then says why
    void addDevice();
    void setDeviceNumber(Field field, std::string_view text);
    const std::string& problem() const noexcept { return problem_; }

private:
    void addSpan(Profile::SpanType type);
    std::uint32_t thread();
    std::uint32_t arguments();

    std::unordered_map<std::string, std::uint32_t> threads_;
    std::string lastThread_;
    std::uint32_t lastThreadNumber_ = 0;
    std::unordered_map<std::uint64_t, std::uint32_t>
        argumentsAt_; ///< hash -> index of the last arguments with this hash
    std::string problem_;
};

} // namespace headroom
