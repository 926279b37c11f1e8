// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <nlohmann/json.hpp>

#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace headroom {

/// What a program left behind.
struct Finished
{
    int exitCode = -1; ///< 128 + signal when one ended it, as a shell says
    std::string out;
    std::string err;

    /// stdout as one JSON document; a discarded value when it is none.
    nlohmann::ordered_json json() const { return nlohmann::ordered_json::parse(out, nullptr, false); }
};

/// Runs a program to its end, without a display, with nothing on its stdin. `environment` is added to this process's;
/// an empty value takes a variable away. Ends it after two minutes.
Finished runProgram(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                    const std::vector<std::pair<std::string, std::string>>& environment = {});

/// The built program torch-headroom.
Finished headroomProgram(const std::vector<std::string>& arguments);

/// Runs torch-headroom and kills it when `isTime`, which is asked all the time, says so. Returns whether it was killed
/// before its end.
bool killedProgram(const std::vector<std::string>& arguments, const std::function<bool()>& isTime);

/// Keys of an object in their order.
std::vector<std::string> keysOf(const nlohmann::ordered_json& object);

/// One line, and it begins with `torch-headroom: `: what every error looks like.
bool isErrorLine(const std::string& err);

std::string readFile(const std::filesystem::path& path);
void writeFile(const std::filesystem::path& path, std::string_view content);

/// Names of the files in a folder, sorted.
std::vector<std::string> filesIn(const std::filesystem::path& folder);

} // namespace headroom
