// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <functional>
#include <memory>

namespace headroom {

/// Makes the hooks of one tensor that autograd saves; null: the tensor is saved as usual.
using SavedTensorHooksFactory = std::function<std::unique_ptr<torch::autograd::SavedVariableHooks>()>;

/// While it lives, tensors that this thread saves for backward get hooks of `factory`: what
/// torch.autograd.graph.saved_tensors_hooks is in Python. The innermost one counts, alone; in a Python process, hooks
/// that the program has set there come first.
class SavedTensorHooksScope
{
public:
    explicit SavedTensorHooksScope(SavedTensorHooksFactory factory);
    ~SavedTensorHooksScope();
    SavedTensorHooksScope(const SavedTensorHooksScope&) = delete;
    SavedTensorHooksScope& operator=(const SavedTensorHooksScope&) = delete;

private:
    SavedTensorHooksFactory factory_;
    const SavedTensorHooksFactory* outer_;
};

/// The hooks of all threads that have no scope of their own; an empty factory takes them away.
void setDefaultSavedTensorHooks(SavedTensorHooksFactory factory);

} // namespace headroom
