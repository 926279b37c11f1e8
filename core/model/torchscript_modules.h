// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/model/torchscript_file.h"
#include "core/record/recorder.h"

#include <torch/csrc/jit/api/module.h>

#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace headroom {

/// While it lives, TorchScript in this thread runs every op as written, without fusion and differentiable subgraphs.
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

/// The modules of a TorchScript model in the order of model.modules(). A module with two names has the first name here.
/// TorchScript has no hooks, so the constructor adds nodes to the graphs of the modules' forwards: they report the
/// calls to the Recorder and to the ModuleCallHandler.
class TorchScriptModules
{
public:
    TorchScriptModules(const torch::jit::Module& root, TorchScriptLines lines);

    const ModelTree& tree() const { return tree_; }

    /// During its life, forwards in this thread report calls.
    class Announce
    {
    public:
        explicit Announce(const TorchScriptModules& modules);
        ~Announce();
        Announce(const Announce&) = delete;
        Announce& operator=(const Announce&) = delete;

        /// Rethrows the ModuleCallError that caused an exception of the interpreter, if one did. Call it after this
        /// exception.
        static void rethrowRefusal();
    };

private:
    friend struct ModuleCalls;
    class RunAgain;

    void add(const torch::jit::Module& module, const std::string& fqn, ModuleId parent);
    void announceCalls(const torch::jit::Module& module);

    static FrameId runningFrame(); ///< innermost line that the interpreter runs in this thread; invalid: none

    TorchScriptLines lines_;
    ModelTree tree_;
    std::unordered_map<const c10::ivalue::Object*, ModuleId> ids_;
    std::unordered_set<const c10::TensorImpl*> registered_;
};

/// Appends every tensor in a value to `tensors`: the value itself, or the items of a list, a tuple or a dictionary.
void collectTensors(const c10::IValue& value, std::vector<at::Tensor>& tensors);

/// Moves all tensors of the model to a device, and replaces the devices in the code. Tensors that shared a storage
/// still do. Zero-dimensional constants of the code stay on the CPU, since their values may determine shapes.
void moveToDevice(torch::jit::Module& root, at::Device device);

} // namespace headroom
