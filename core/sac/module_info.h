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

/// Statistics of one module, as PyTorch's ModuleStats (torch/distributed/_tools/ilp_utils.py), in bytes and ms. JSON
/// keys are PyTorch's; comments give a key that differs from the member's name.
struct ModuleStats
{
    std::string fqn;
    Bytes paramBytes = 0; ///< param_per_module
    Bytes gradBytes = 0; ///< grad_per_module
    Bytes gradTotal = 0; ///< grad_total: gradients alive when the module's backward begins
    Bytes activationForward = 0; ///< act_fw_per_module: activations saved by the forward, without the output
    Bytes activationBackward = 0; ///< act_bw_per_module: activations alive at the peak of the module's backward
    Bytes activationGrad = 0; ///< act_grad_per_module: temporaries that backward adds at that peak
    Bytes activationTotal = 0; ///< act_total: activations alive when the forward ends
    Bytes inputBytes = 0; ///< input_per_module
    Bytes outputBytes = 0; ///< output_per_module
    double forwardMs = 0; ///< fw_runtime_per_module
    double backwardMs = 0; ///< bw_runtime_per_module
    bool isLeaf = true; ///< is_leaf: has no statistics of selective checkpointing and cannot be checkpointed
    std::string obstacle; ///< why a module with children cannot be checkpointed; empty: it can. Not PyTorch's
    /// Some call saves tensors for backward. Activations above are of the last call, which may run without gradients.
    bool saves = false;
    bool isWholeOnly = false; ///< no op may be saved, since ops of tensor subclasses run in the module
    std::string obstacleToOffload; ///< a clause: why the saved tensors stay on the device; empty: the tensors may move
    double sacRuntimeMs = 0; ///< sac_runtime
    Bytes sacMemory = 0; ///< sac_memory
    /// Convex piecewise-linear trade-off: if the share r of sacMemory is discarded, recomputation takes at least
    /// sacRuntimeMs * max_s (slopes[s] * r + intercepts[s]). n_segments = slopes.size().
    std::vector<double> slopes;
    std::vector<double> intercepts;
    std::vector<double> breakpoints;
    std::vector<std::pair<double, double>>
        tradeoffCurve; ///< tradeoff_curve: greedy points (share discarded, share of time)
};

/// PyTorch's ModuleInfo, in JSON {"mod_order": {...}, "mod_stats": [...]}.
struct ModuleInfo
{
    std::vector<std::string> fwPreOrder;
    std::vector<std::string> bwPreOrder;
    std::vector<std::string> fwPostOrder;
    std::vector<std::string> bwPostOrder;
    std::vector<ModuleStats> stats; ///< in the order of model.modules()
};

using ModuleInfoPtr = std::shared_ptr<const ModuleInfo>;

/// Reads a ModuleInfo as JSON, PyTorch's own files included. Errors (badInput) name the module and the field: missing,
/// not a number, NaN, negative, an order that names an unknown module; or the file cannot be read.
Result<ModuleInfo> readModuleInfo(const std::filesystem::path& path);
Result<ModuleInfo> parseModuleInfo(std::string_view text, std::string_view sourceName);

/// The ModuleInfo as JSON with PyTorch's keys, indented by two spaces.
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
