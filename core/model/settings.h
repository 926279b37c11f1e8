// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace headroom {

/// Reads a model's arguments from `--set KEY=VALUE`. The model reads each argument once with a range, then calls
/// finish(), which returns the first error: a wrong value, or an unknown key.
class SettingsReader
{
public:
    using Settings = std::vector<std::pair<std::string, std::string>>;

    SettingsReader(const Settings& given, std::string model);

    void integer(std::string_view key, std::int64_t& value, std::int64_t least, std::int64_t most);
    void oneOf(std::string_view key, std::int64_t& value, std::span<const std::int64_t> allowed);
    void number(std::string_view key, double& value, double least, double below); ///< least <= value < below
    void flag(std::string_view key, bool& value); ///< true or false

    Status finish() const; ///< error (badInput): an unknown setting, or the first wrong value

private:
    const std::string* find(std::string_view key);
    template <class Value, class Accepts>
    void read(std::string_view key, Value& value, Accepts accepts, const std::string& expected);

    const Settings& given_;
    std::string model_;
    std::vector<std::string> known_;
    std::string error_; ///< first error; empty: none
};

/// Returns a batch size or sequence length: `asked`, which the user gave as `option`, or `standard` if `asked` is 0.
/// Errors: below 1 or above `most`.
Result<std::int64_t> chosenSize(const std::string& option, std::int64_t asked, std::int64_t standard,
                                std::int64_t most);

/// Returns an error if a step may need more than 2^60 bytes by a generous estimate. So sums of bytes never overflow.
Status checkStepSize(const std::string& model, double estimatedBytes);

} // namespace headroom
