// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/model/exported/exported_program.h"
#include "core/record/recorder.h"

#include <map>
#include <string>

namespace headroom::exported {

/// The tensors of a file on a device: each storage once, tied parameters one tensor under several names. On the
/// simulated device nothing is read. Errors (badInput): a file without weights on a device that computes.
Result<std::map<std::string, at::Tensor>> loadWeights(const ExportedProgram& program, at::Device device);

/// Modules as the file names them, and where each lies in the tree.
struct NamedTree
{
    ModelTree tree;
    std::map<std::string, ModuleId> ids; ///< by FQN; "" is the root
};

/// All modules in the order of model.modules(), with the tensors that they own. Types are known of modules that the
/// graph runs through; containers that it does not are told by their children.
NamedTree makeTree(const ExportedProgram& program, const std::map<std::string, at::Tensor>& tensors);

} // namespace headroom::exported
