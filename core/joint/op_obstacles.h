// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/predict/step_index.h"

#include <string_view>
#include <vector>

namespace headroom {

/// The classes of an op in torch._functorch's partitioner, by the op's name alone (torch/_functorch/partitioners.py,
/// get_default_op_list).
struct OpKind
{
    bool recomputable = false; ///< cheap: pointwise, views, reductions, factories
    bool fusible = false; ///< can share a kernel with the ops before and after
    bool computeIntensive = false;
    bool random = false;
    bool concatenation = false; ///< any op before can be fused into this op
    bool updatesStatistics = false; ///< batch normalisation: also changes running statistics
};

/// Returns the kind of an op by the name as PyTorch prints an OpOverload: "aten.mm.default". An in-place op has the
/// kind of the op without the underscore, as the partitioner sees functional graphs.
OpKind opKind(std::string_view name);

/// A module with kept ops, since the module's forward cannot be recomputed.
struct KeptModule
{
    ModuleId module;
    std::string_view reason; ///< for the user
};

/// Returns, by module, why the forward cannot be recomputed; empty if possible. Reasons are the obstacles of
/// obstacles.h, and several backward passes through what the module saves.
std::vector<std::string_view> opsObstacles(const StepTrace& trace, const StepIndex& index);

/// Finds the forward ops that cannot be recomputed, since no module around the op can. PyTorch recomputes an op only by
/// checkpointing a module around the op.
class OpObstacles
{
public:
    OpObstacles(const StepTrace& trace, const StepIndex& index);

    bool keep(OpId op) const; ///< whether the op cannot be recomputed
    /// Adds the modules that keep the op from recomputation, the outermost last. A leaf of the model is added only as
    /// the outermost call.
    void addModules(OpId op, std::vector<ModuleId>& modules) const;
    /// The modules with the reasons, each module once, in the model's order.
    std::vector<KeptModule> named(std::vector<ModuleId> modules) const;

private:
    const StepTrace& trace_;
    const StepIndex& index_;
    std::vector<std::string_view> reasons_; ///< by module
    std::vector<bool> hasChildren_; ///< by module
};

} // namespace headroom
