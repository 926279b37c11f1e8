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

/// Statistics of one module's ops for selective checkpointing (PyTorch's SACStats, sac_estimator.py): one entry for
/// each op, in the order in which they run in the module's forward, submodules included.
struct SacStats
{
    std::vector<std::string> funcNames; ///< func_names
    std::vector<double> runtimes; ///< ms
    std::vector<Bytes> memory;
    std::vector<int> viewLikeOps; ///< view_like_ops
    std::vector<int> randOps; ///< rand_ops
    std::vector<int> savedAutogradOps; ///< saved_autograd_ops
    std::vector<std::pair<int, int>> inplaceOps; ///< inplace_ops: (op, parent); parent == op: no parent
    bool forceStoreRandom = false; ///< force_store_random: the module has no tensor inputs
};

/// Reads PyTorch's SACStats JSON: an object with the fields above, or {"FQN": {...}}. `fqn` selects a module of the
/// latter (empty: the only module). Errors (badInput) name the field: missing, lengths that differ, index out of range,
/// NaN; or the file cannot be read. Other fields are ignored.
Result<SacStats> readSacStats(const std::filesystem::path& path, const std::string& fqn = {});
Result<SacStats> parseSacStats(std::string_view text, std::string_view sourceName, const std::string& fqn = {});

/// The order in which a module's ops are discarded (SACEstimator._get_greedy_order_meta): by descending memory per
/// time. In-place ops form a group with the op that made the changed result, and all random ops form a group; `op` is
/// the group's head.
struct GreedyOrder
{
    struct Candidate
    {
        int op = 0;
        Bytes memory = 0; ///< of the whole group
        double ms = 0;
        double bytesPerMs = 0; ///< the largest double if `ms` is 0
    };
    std::vector<Candidate> candidates; ///< best first; equal candidates in the order of PyTorch's sets
    std::vector<int> recomputed; ///< views: always recomputed
    std::vector<int> stored; ///< heads that are always stored: in-place ops on older tensors, forced random ops
};
GreedyOrder greedyOrder(const SacStats& stats);

/// The trade-off of memory and time along the greedy order, and a continuous piecewise-linear fit
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

/// The curve has PyTorch's points to the last bit. The fit is PyTorch's too: at most 2 segments of least squares, with
/// the shares of time moved one point to the left. The best fit is found exactly (piecewise_fit.h), so that identical
/// modules have identical fits. Special cases:
///
/// - A single point to fit (PyTorch: NaN): a horizontal segment at the point's share of time, since any share
///   recomputes that op.
/// - No memory (PyTorch divides by zero): no curve and no segments; there is nothing to checkpoint.
/// - Memory but no time: every share of time is 0.
/// - Slopes that do not ascend (ResNet's first layers: random ops and in-place groups make the curve concave) stay
///   unchanged, as in PyTorch. A planner that takes the larger of the two lines then overestimates the time, the more
///   the further r is from the breakpoint.
TradeOff tradeOff(const SacStats& stats);

} // namespace headroom
