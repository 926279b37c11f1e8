// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace headroom {

/// A common subsequence of `a` and `b`: pairs of an index into `a` and an index into `b` with equal keys, both
/// ascending.
using CommonSubsequence = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

/// Returns a longest common subsequence (E. W. Myers, An O(ND) Difference Algorithm, 1986) if the sequences differ
/// little. Where they differ by `mostEditsInARow` edits in a row it may be shorter, which keeps the time proportional
/// to the length times those edits.
CommonSubsequence commonSubsequence(std::span<const std::uint64_t> a, std::span<const std::uint64_t> b,
                                    int mostEditsInARow = 400);

/// Returns a longest common subsequence; only the equal elements at both ends if more than `mostEdits` elements are not
/// in both.
CommonSubsequence longestCommonSubsequence(std::span<const std::uint64_t> a, std::span<const std::uint64_t> b,
                                           int mostEdits);

} // namespace headroom
