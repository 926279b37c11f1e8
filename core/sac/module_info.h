// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/bytes.h"
#include "core/base/error.h"

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace headroom {

/// Statistics of one module, as PyTorch's ilp_utils.ModuleStats (torch/distributed/_tools/ilp_utils.py): bytes, ms.
/// JSON keys are PyTorch's; the comments give them where the name differs.
struct ModuleStats
{
    std::string fqn;
    Bytes paramBytes = 0; ///< param_per_module
    Bytes gradBytes = 0; ///< grad_per_module
    Bytes gradTotal = 0; ///< grad_total: gradients alive when the module's backward begins
    Bytes activationForward = 0; ///< act_fw_per_module: kept by the forward, without the output
    Bytes activationBackward = 0; ///< act_bw_per_module: activations alive at the peak of its backward
    Bytes activationGrad = 0; ///< act_grad_per_module: temporaries that its backward adds at that peak
    Bytes activationTotal = 0; ///< act_total: activations alive when its forward ends
    Bytes inputBytes = 0; ///< input_per_module
    Bytes outputBytes = 0; ///< output_per_module
    double forwardMs = 0; ///< fw_runtime_per_module
    double backwardMs = 0; ///< bw_runtime_per_module
    bool isLeaf = true; ///< is_leaf: no statistics of selective checkpointing, cannot be checkpointed
    std::string obstacle; ///< why it cannot be checkpointed although it is no leaf; empty: nothing is in the way. No
                          ///< part of PyTorch's document
    bool isWholeOnly = false; ///< where it is checkpointed, all of it runs again: ops run inside of tensor subclasses
    double sacRuntimeMs = 0; ///< sac_runtime
    Bytes sacMemory = 0; ///< sac_memory
    /// Convex piecewise-linear trade-off: with r the share of sacMemory discarded, recomputation takes at least
    /// sacRuntimeMs * max_s (slopes[s] * r + intercepts[s]). n_segments = slopes.size().
    std::vector<double> slopes;
    std::vector<double> intercepts;
    std::vector<double> breakpoints;
    std::vector<std::pair<double, double>>
        tradeoffCurve; ///< tradeoff_curve: greedy points (share discarded, share of time)
};

/// PyTorch's ModuleInfo: {"mod_order": {...}, "mod_stats": [...]}.
struct ModuleInfo
{
    std::vector<std::string> fwPreOrder;
    std::vector<std::string> bwPreOrder;
    std::vector<std::string> fwPostOrder;
    std::vector<std::string> bwPostOrder;
    std::vector<ModuleStats> stats; ///< in the order of model.modules()
};

using ModuleInfoPtr = std::shared_ptr<const ModuleInfo>;

/// Reads a ModuleInfo document, PyTorch's own included. Every field is checked: the error names the module and the
/// field (missing, not a number, NaN, negative, an order that names an unknown module).
Result<ModuleInfo> readModuleInfo(const std::filesystem::path& path);
Result<ModuleInfo> parseModuleInfo(std::string_view text, std::string_view sourceName);

/// The document as JSON, keys as PyTorch's, two spaces of indentation.
std::string toJson(const ModuleInfo& info);

/// PyTorch's get_peak_memory_runtime_baseline (ilp_utils.py): the peak of the model's parameters, gradients and
/// activations without checkpointing (no optimizer state), and the time of forward and backward.
struct Baseline
{
    Bytes peak = 0;
    double computeMs = 0;
};
Baseline baseline(const ModuleInfo& info);

} // namespace headroom
