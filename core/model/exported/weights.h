// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/model/exported/exported_program.h"
#include "core/record/recorder.h"

#include <map>
#include <string>

namespace headroom::exported {

/// Loads the tensors of a file to a device: each storage once, a tied parameter as one tensor under several names.
/// Nothing is read for the simulated device. Errors (badInput): a file without weights on a device that computes.
Result<std::map<std::string, at::Tensor>> loadWeights(const ExportedProgram& program, at::Device device);

/// A module tree, with the ids of its modules by the file's names.
struct NamedTree
{
    ModelTree tree;
    std::map<std::string, ModuleId> ids; ///< by FQN; "" is the root
};

/// Returns all modules in the order of model.modules(), with the tensors that they own. The graph has the types of
/// modules that run; the types of other containers are deduced from their children.
NamedTree makeTree(const ExportedProgram& program, const std::map<std::string, at::Tensor>& tensors);

} // namespace headroom::exported
