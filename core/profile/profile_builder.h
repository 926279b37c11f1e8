// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/profile/event_fields.h"
#include "core/profile/profile.h"

#include <string>
#include <unordered_map>

namespace headroom {

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
    void addSpan(Profile::Kind kind);
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
