// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace headroom {

/// Where two sequences have the same keys: places in `a` and in `b`, both rising. They are as many as can be (E. W.
/// Myers, An O(ND) Difference Algorithm, 1986) where the sequences differ little. Where more than some hundred edits in
/// a row part them they may be fewer, so that the time stays proportional to the length.
std::vector<std::pair<std::uint32_t, std::uint32_t>> commonPlaces(std::span<const std::uint64_t> a,
                                                                  std::span<const std::uint64_t> b);

} // namespace headroom
