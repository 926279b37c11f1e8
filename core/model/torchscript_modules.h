// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/record/recorder.h"

#include <torch/csrc/jit/api/module.h>

#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace headroom {

/// While one lives, TorchScript in this thread runs every op as written: no fusion, no graphs of derivatives.
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

/// The modules of a TorchScript model in the order of model.modules(): a module that has two names stands under the
/// first. Their forwards are changed so that they announce themselves, to the Recorder and to the handler of module
/// calls: TorchScript knows no hooks.
class TorchScriptModules
{
public:
    explicit TorchScriptModules(const torch::jit::Module& root);

    const ModelTree& tree() const { return tree_; }

    /// While one lives, forwards that run in this thread announce their calls.
    class Announce
    {
    public:
        explicit Announce(const TorchScriptModules& modules);
        ~Announce();
        Announce(const Announce&) = delete;
        Announce& operator=(const Announce&) = delete;

        /// After an exception: throws what the handler of module calls refused, if that was it. The interpreter passes
        /// it on as an error of its own.
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

/// Every tensor in a value: itself, or those of a list, a tuple, a dictionary.
void collectTensors(const c10::IValue& value, std::vector<at::Tensor>& tensors);

/// Puts everything that the model holds on a device without values: parameters, buffers, tensors in lists, devices that
/// its code names. Tensors that share a storage share one there; constants of the code that are one number stay, as
/// their values may say shapes.
void moveToDevice(torch::jit::Module& root, at::Device device);

} // namespace headroom
