// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/snapshot/snapshot.h"
#include "core/trace/step_trace.h"

#include <optional>
#include <string>
#include <vector>

namespace headroom {

/// Facts about an allocation that follow from the frames of its stack.
struct StackMeaning
{
    std::string op; ///< "aten.addmm" with C++ frames, else "forward (model.py:54)"; empty: unknown
    std::string node; ///< autograd node whose backward runs: "AddmmBackward0"
    std::optional<Phase> phase; ///< backward, optimizer, zeroGrad; forward inside a module's forward
    /// Names for the modules that run a forward on the stack, outermost first. PyTorch records neither class nor
    /// attribute name: a name consists of the file of the forward, and the line of its call in the enclosing forward.
    std::vector<std::string> modules;
    bool makesParameters = false; ///< inside of torch.nn.init, Module.to(), a constructor or a similar function
    bool empty = true;
};

/// Returns the meaning of a stack; `none` is the stack of an event without frames.
StackMeaning stackMeaning(const Snapshot& snapshot, Snapshot::Index stack);

} // namespace headroom
