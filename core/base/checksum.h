// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace headroom {

/// XXH64 of `bytes` with seed 0 (Yann Collet's xxHash): detects damage, not forgery, at several GB/s.
std::uint64_t checksum(std::span<const std::byte> bytes) noexcept;

} // namespace headroom
