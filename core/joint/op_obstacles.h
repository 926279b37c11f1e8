// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/predict/step_index.h"

#include <string_view>
#include <vector>

namespace headroom {

/// A module whose forward cannot run again with some of its ops kept.
struct KeptModule
{
    ModuleId module;
    std::string_view reason; ///< what is said of it
};

/// By module: why it cannot, empty where it can. What obstacles.h says, and where several backward passes go through
/// what it saves.
std::vector<std::string_view> opsObstacles(const StepTrace& trace, const StepIndex& index);

/// Which ops of forward stay as they are, since no module around them can run again: a checkpoint of one of them is
/// what makes ops run again in PyTorch.
class OpObstacles
{
public:
    OpObstacles(const StepTrace& trace, const StepIndex& index);

    bool keep(OpId op) const;
    /// Adds the modules that are in the op's way, the outermost last; leaves of the model only where they are all.
    void addModules(OpId op, std::vector<ModuleId>& modules) const;
    std::vector<KeptModule> named(std::vector<ModuleId> modules) const; ///< each once, in the model's order

private:
    const StepTrace& trace_;
    const StepIndex& index_;
    std::vector<std::string_view> reasons_; ///< by module
    std::vector<bool> hasChildren_; ///< by module
};

} // namespace headroom
