// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/bytes.h"
#include "core/base/error.h"

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace headroom {

/// What selective checkpointing needs to know of one module's ops (PyTorch's SACStats, sac_estimator.py). One entry an
/// op, in the order in which they run in the module's forward, submodules included.
struct SacStats
{
    std::vector<std::string> funcNames; ///< func_names
    std::vector<double> runtimes; ///< ms
    std::vector<Bytes> memory;
    std::vector<int> viewLikeOps; ///< view_like_ops
    std::vector<int> randOps; ///< rand_ops
    std::vector<int> savedAutogradOps; ///< saved_autograd_ops
    std::vector<std::pair<int, int>> inplaceOps; ///< inplace_ops: (op, parent); parent == op when it has none
    bool forceStoreRandom = false; ///< force_store_random: the module has no tensor inputs
};

/// Reads PyTorch's SACStats JSON: one object with the fields above, or {"FQN": {...}} where `fqn` selects (empty: the
/// only one). Errors name the field: missing, lengths that differ, index out of range, NaN. Other fields are ignored.
Result<SacStats> readSacStats(const std::filesystem::path& path, const std::string& fqn = {});
Result<SacStats> parseSacStats(std::string_view text, std::string_view sourceName, const std::string& fqn = {});

/// In which order a module's ops are given up (SACEstimator._get_greedy_order_meta): most memory for the time first.
/// In-place ops go with the op whose result they change, random ops all together; `op` is then the group's head.
struct GreedyOrder
{
    struct Candidate
    {
        int op = 0;
        Bytes memory = 0; ///< of the whole group
        double ms = 0;
        double bytesPerMs = 0; ///< the largest double when it takes no time
    };
    std::vector<Candidate> candidates; ///< best first; equal ones in the order of PyTorch's sets
    std::vector<int> recomputed; ///< views: always recomputed
    std::vector<int> stored; ///< heads that are always stored: in-place ops on what was there before, forced random ops
};
GreedyOrder greedyOrder(const SacStats& stats);

/// What the greedy order says of memory and time, and a continuous piecewise-linear fit of it
/// (SACEstimator._get_sac_tradeoff_pwlf_stats).
struct TradeOff
{
    std::vector<std::pair<double, double>> curve; ///< (share discarded + 0.01, share of time), as PyTorch's
    std::vector<double> breakpoints;
    std::vector<double> slopes;
    std::vector<double> intercepts;
    double sacRuntimeMs = 0;
    Bytes sacMemory = 0;
};

/// The curve has PyTorch's points to the last bit. The fit is PyTorch's too: with the shares of time moved one point to
/// the left, at most 2 segments of least squares; only that the best one is found exactly (piecewise_fit.h), so that
/// identical modules have identical fits.
///
/// - One point to fit (PyTorch: NaN): a level segment at its share of time. Whatever is discarded, that op runs again.
/// - No memory at all (PyTorch divides by zero): no curve and no segments; there is nothing to checkpoint.
/// - Memory, but no time: every share of time is 0.
/// - Slopes need not ascend (ResNet's first layers: random ops and in-place groups make the curve concave). The numbers
///   stay as they are, as PyTorch's do; a planner that takes the larger of the two lines then charges at least what the
///   fit says, and more the further r is from the breakpoint.
TradeOff tradeOff(const SacStats& stats);

} // namespace headroom
