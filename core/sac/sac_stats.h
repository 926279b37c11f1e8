// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/bytes.h"
#include "core/base/error.h"

#include <filesystem>
#include <map>
#include <string>
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
/// only one). Errors name the field: missing, lengths that differ, index out of range, NaN.
Result<SacStats> readSacStats(const std::filesystem::path& path, const std::string& fqn = {});

/// Greedy order of recomputation, and what it says of memory and time (SACEstimator._get_greedy_order_meta,
/// _get_sac_tradeoff_pwlf_stats).
struct TradeOff
{
    std::vector<std::pair<double, double>> curve; ///< (share discarded + 0.01, share of time), as PyTorch's
    std::vector<double> breakpoints;
    std::vector<double> slopes;
    std::vector<double> intercepts;
    double sacRuntimeMs = 0;
    Bytes sacMemory = 0;
};
TradeOff tradeOff(const SacStats& stats);

} // namespace headroom
