// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/snapshot/snapshot.h"
#include "core/trace/step_trace.h"

#include <optional>
#include <string>
#include <vector>

namespace headroom {

/// What the frames of one stack say of the allocation that was made there.
struct StackMeaning
{
    std::string op; ///< "aten.addmm" where C++ frames were recorded, else "forward (model.py:54)"; empty: nothing
    std::string node; ///< autograd's node whose backward runs: "AddmmBackward0"
    std::optional<Phase> phase; ///< backward, optimizer, zero_grad; forward where a module's forward runs
    /// Forwards of modules from the outside in. PyTorch records no class and no attribute name: each is called after
    /// the file of its forward, and the line from which it was called inside the one before.
    std::vector<std::string> modules;
    bool makesParameters = false; ///< Module.to() and its like, torch.nn.init
    bool empty = true;
};

/// The meaning of a stack; `none` is the stack of an event without frames.
StackMeaning stackMeaning(const Snapshot& snapshot, Snapshot::Index stack);

} // namespace headroom
