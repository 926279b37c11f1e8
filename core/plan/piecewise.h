// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/plan/plan.h"
#include "core/sac/module_info.h"

#include <memory>
#include <stop_token>

namespace headroom {

/// PyTorch's MILP (sac_milp in torch/distributed/_tools/sac_ilp.py) in a form that solves in milliseconds: perspective
/// rows instead of big-M, cumulative sums, one clique row per path, integer counts for classes of identical modules.
/// The same input gives the same optimum, with gap 0. Three things differ. The recomputation of one module is not
/// limited to 100 ms (sac_milp's big M). Trade-off curves of identical modules that differ by less than 1e-4, which is
/// noise of PyTorch's fit, count as one curve, that of the first module. Bytes are integers, so that a plan never
/// exceeds its budget.
///
/// Among plans of equal time it returns the one that checkpoints the earliest modules; among discards of equal cost it
/// takes those of the latest modules first.
///
/// Built once for a ModuleInfo; solve() is called for each budget. It is const and may run on any thread, since a GLPK
/// problem never outlives the call.
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
