// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/plan/plan.h"
#include "core/sac/module_info.h"

#include <memory>
#include <stop_token>

namespace headroom {

/// The seed's MILP (torch/distributed/_tools/sac_ilp.py, sac_milp) in a form that solves in milliseconds: perspective
/// rows instead of big-M, cumulative sums, one clique row per path, classes of identical modules as integer counts.
/// Same input, same optimum, gap 0. What differs: no limit of 100 ms on the recomputation of one module (sac_milp's
/// big M), trade-off curves of identical modules that differ by less than 1e-4 are taken for one curve (the first
/// module's: the difference is noise of PyTorch's fit), and bytes are whole, so that a plan never exceeds its budget.
///
/// Among plans of equal time the earliest modules are checkpointed, and of those the last discards the rest of a layer.
///
/// Built once for a ModuleInfo and asked again for each budget. solve() is const and may run on any thread (GLPK's
/// environment is thread-local, problems never leave the call).
class PiecewisePlanner
{
public:
    static Result<PiecewisePlanner> create(ModuleInfoPtr info);

    /// Errors (badInput): a unit or pin that names no module, a pin on a leaf, world size < 1, budget < 1.
    Result<Plan> solve(const PlanRequest& request, std::stop_token stop = {}) const;

    const ModuleInfo& moduleInfo() const noexcept;

private:
    struct Model;
    explicit PiecewisePlanner(std::shared_ptr<const Model> model);
    std::shared_ptr<const Model> model_;
};

} // namespace headroom
