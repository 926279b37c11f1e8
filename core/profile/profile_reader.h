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

/// Reads the Chrome trace that torch.profiler exports (Kineto's of torch 1.8 and later), plain or packed by gzip, from
/// front to back without holding it. Errors (badInput), each one sentence that begins with the name: no JSON, cut off,
/// damaged, JSON of something else, a trace without PyTorch's events.
Result<Profile> readProfile(const std::filesystem::path& path);
Result<Profile> readProfile(std::span<const std::byte> bytes, const std::string& name);

/// Does the file begin as JSON does, perhaps packed? False also when it cannot be read.
bool isProfileFile(const std::filesystem::path& path);

} // namespace headroom
