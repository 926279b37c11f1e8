// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/predict/step_index.h"

#include <string_view>
#include <vector>

namespace headroom {

/// The classes in which torch._functorch's partitioner puts an op, by its name alone (torch/_functorch/partitioners.py,
/// get_default_op_list).
struct OpKind
{
    bool recomputable = false; ///< cheap: pointwise, views, reductions, factories
    bool fusible = false; ///< can share a kernel with the ops before and after it
    bool computeIntensive = false;
    bool random = false;
    bool concatenation = false; ///< any op before it can be fused into it
    bool updatesStatistics = false; ///< batch normalisation: also changes its running statistics
};

/// Returns the kind of an op by its name as PyTorch prints an OpOverload: "aten.mm.default". An in-place op has the
/// kind of the op without the underscore, as the partitioner sees functional graphs.
OpKind opKind(std::string_view name);

/// A module whose forward cannot run again with some of its ops kept.
struct KeptModule
{
    ModuleId module;
    std::string_view reason; ///< for the user
};

/// Returns, by module, why its forward cannot run again; empty if it can. Reasons are those of obstacles.h, and several
/// backward passes through what the module saves.
std::vector<std::string_view> opsObstacles(const StepTrace& trace, const StepIndex& index);

/// Finds the forward ops that cannot run again, since no module around them can. PyTorch runs ops again only by
/// checkpointing a module around them.
class OpObstacles
{
public:
    OpObstacles(const StepTrace& trace, const StepIndex& index);

    bool keep(OpId op) const; ///< whether the op cannot run again
    /// Adds the modules that keep the op from running again, the outermost last. A leaf of the model is added only if
    /// it is the outermost call.
    void addModules(OpId op, std::vector<ModuleId>& modules) const;
    /// The modules with their reasons, each once, in the model's order.
    std::vector<KeptModule> named(std::vector<ModuleId> modules) const;

private:
    const StepTrace& trace_;
    const StepIndex& index_;
    std::vector<std::string_view> reasons_; ///< by module
    std::vector<bool> hasChildren_; ///< by module
};

} // namespace headroom
