// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/record/node_table.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <functional>
#include <memory>

namespace headroom {

/// Creates the hooks for one tensor that autograd saves; null: the tensor is saved as usual.
using SavedTensorHooksFactory = std::function<std::unique_ptr<torch::autograd::SavedVariableHooks>()>;

/// Returns the tensor that autograd saves. Only a SavedTensorHooksFactory may call it.
at::Tensor tensorToSave();

/// Called whenever a tensor is asked for its node, which is null for a leaf: an op asks its arguments, and a saved
/// variable asks a leaf that it saved without hooks when a node unpacks it. It must be quick.
using GradFnObserver = void (*)(const at::TensorBase& tensor, const NodePtr& node);

/// Sets the observer of the process; null: none.
void setGradFnObserver(GradFnObserver observer);

/// While it lives, tensors that this thread saves for backward get hooks from `factory`, as with
/// torch.autograd.graph.saved_tensors_hooks in Python. Only the innermost scope applies. In a Python process, hooks
/// that the program itself has set take precedence.
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

/// Sets the hooks of all threads without a scope of their own; an empty factory removes them.
void setDefaultSavedTensorHooks(SavedTensorHooksFactory factory);

} // namespace headroom
