// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"
#include "core/profile/profile.h"

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

namespace headroom {

/// Reads a Chrome trace of torch.profiler (Kineto, torch 1.8 and later), plain or gzipped, from front to back without
/// holding it in memory. Errors (badInput) are one sentence that begins with the file's name: not JSON, truncated,
/// damaged, other JSON, a trace without PyTorch's events.
Result<Profile> readProfile(const std::filesystem::path& path);
Result<Profile> readProfile(std::span<const std::byte> bytes, const std::string& name);

/// Returns whether the file, unpacked if gzipped, begins as JSON does. False also if it cannot be read.
bool isProfileFile(const std::filesystem::path& path);

} // namespace headroom
