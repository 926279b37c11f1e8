// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/record/recorder.h"

#include <torch/csrc/jit/api/module.h>

#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace headroom {

/// While it lives, TorchScript in this thread runs every op as written: no fusion, no graphs of derivatives.
class UnoptimizedScope
{
public:
    UnoptimizedScope();
    ~UnoptimizedScope();
    UnoptimizedScope(const UnoptimizedScope&) = delete;
    UnoptimizedScope& operator=(const UnoptimizedScope&) = delete;

private:
    bool before_;
};

/// The modules of a TorchScript model in the order of model.modules(); a module with two names is listed under the
/// first. TorchScript has no hooks, so the constructor changes the modules' forwards: they report their calls to the
/// Recorder and to the handler of module calls.
class TorchScriptModules
{
public:
    explicit TorchScriptModules(const torch::jit::Module& root);

    const ModelTree& tree() const { return tree_; }

    /// While it lives, forwards that run in this thread report their calls.
    class Announce
    {
    public:
        explicit Announce(const TorchScriptModules& modules);
        ~Announce();
        Announce(const Announce&) = delete;
        Announce& operator=(const Announce&) = delete;

        /// Call this after an exception of the interpreter: rethrows the ModuleCallError that caused it, if one did.
        static void rethrowRefusal();
    };

private:
    friend struct ModuleCalls;
    class RunAgain;

    void add(const torch::jit::Module& module, const std::string& fqn, ModuleId parent);
    void announceCalls(const torch::jit::Module& module);

    ModelTree tree_;
    std::unordered_map<const c10::ivalue::Object*, ModuleId> ids_;
    std::unordered_set<const c10::TensorImpl*> registered_;
};

/// Appends every tensor in a value to `tensors`: the value itself, or those of a list, a tuple, a dictionary.
void collectTensors(const c10::IValue& value, std::vector<at::Tensor>& tensors);

/// Moves everything that the model holds to a device without values: parameters, buffers, tensors in lists, and devices
/// that its code names. Tensors that share a storage still share one there. Zero-dimensional constants of the code stay
/// on the CPU, as their values may determine shapes.
void moveToDevice(torch::jit::Module& root, at::Device device);

} // namespace headroom
