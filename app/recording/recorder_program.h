// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QString>

#include <filesystem>
#include <optional>
#include <string>

namespace headroom {

/// A message of core or of the recorder as a sentence for the window: with a capital, unless the message begins with a
/// name, and a full stop.
QString sentence(const QString& message);

/// The error if torch-headroom-record is needed but missing.
inline constexpr const char* missingRecorder
    = "torch-headroom-record is not beside this program: build Headroom with HEADROOM_RECORDER=ON, or install "
      "torch-headroom-record in the same folder";

/// Path of torch-headroom-record beside this program, the part of Headroom that needs libtorch; nullopt: not built or
/// not installed.
std::optional<std::filesystem::path> recorderProgram();

/// Replaces this process by `torch-headroom-record COMMAND …`, with the arguments after COMMAND in argv, so that
/// output, exit code and signals are the recorder's own. Returns only on failure, with the reason.
std::string becomeRecorder(const std::filesystem::path& recorder, char** argv);

} // namespace headroom
