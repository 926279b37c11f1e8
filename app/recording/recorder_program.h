// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace headroom {

/// What is said where torch-headroom-record is needed and is not there.
inline constexpr const char* missingRecorder = "torch-headroom-record is not beside this program: build it with "
                                               "HEADROOM_RECORDER=ON, or install it in the same folder";

/// torch-headroom-record beside this program: the part of Headroom that needs libtorch. Empty when it was not built or
/// not installed.
std::optional<std::filesystem::path> recorderProgram();

/// Becomes `torch-headroom-record COMMAND …` with the arguments that follow COMMAND in argv. The process is replaced,
/// so that output, exit code and signals are the recorder's own, with nothing in between. Returns only when that
/// failed, with the reason.
std::string becomeRecorder(const std::filesystem::path& recorder, char** argv);

} // namespace headroom
