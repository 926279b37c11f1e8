// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/record/node_table.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <functional>
#include <memory>

namespace headroom {

/// Creates the hooks for a tensor that autograd saves; null: the tensor is saved as usual.
using SavedTensorHooksFactory = std::function<std::unique_ptr<torch::autograd::SavedVariableHooks>()>;

/// Returns the tensor that autograd saves. Only for a SavedTensorHooksFactory.
at::Tensor tensorToSave();

/// Called whenever a tensor's grad_fn is read; `node` is null for a leaf. An op reads the grad_fn of the arguments. A
/// saved variable reads the grad_fn of a leaf saved without hooks when a node unpacks the leaf. An observer must be
/// quick.
using GradFnObserver = void (*)(const at::TensorBase& tensor, const NodePtr& node);

/// Sets the observer of the process; null: none.
void setGradFnObserver(GradFnObserver observer);

/// Called before a program assigns `data` to a tensor's `.data`, as `parameter.data = …` does.
using DataObserver = void (*)(const at::TensorBase& tensor, const at::TensorBase& data);

/// Sets the observer of the process; null: none.
void setDataObserver(DataObserver observer);

/// While the scope lives, tensors that this thread saves for backward get hooks from `factory`, as with
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

/// Sets the hooks of all threads without a SavedTensorHooksScope; an empty factory removes the hooks.
void setDefaultSavedTensorHooks(SavedTensorHooksFactory factory);

} // namespace headroom
