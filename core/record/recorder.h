// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/base/error.h"
#include "core/cost/roofline.h"
#include "core/device/real_device.h"
#include "core/trace/step_trace.h"

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace headroom {

class OutsideMemory;

/// The module tree of a model, in the order of model.modules(), as a source (demo, .pt2, TorchScript, Python) declares
/// the tree.
struct ModelTree
{
    struct Module
    {
        std::string fqn; ///< as in ModTracker: "Transformer.layers.0"
        std::string type;
        ModuleId parent;
    };
    struct Registered
    {
        ModuleId module; ///< owner
        std::string name; ///< "weight"
        at::Tensor tensor;
        Category category = Category::parameter; ///< parameter or buffer
    };
    /// A parameter such as a DTensor: the memory belongs to inner tensors, and the inner tensors are registered.
    struct Wrapped
    {
        ModuleId module; ///< owner
        at::Tensor tensor;
    };
    /// A tensor that an optimizer updates, and that is no parameter of a module.
    struct Leaf
    {
        at::Tensor tensor;
        Category category = Category::parameter; ///< parameter, or optimizer: a master weight
    };
    std::vector<Module> modules;
    std::vector<Registered> registered;
    std::vector<Wrapped> wrapped;
    std::vector<Leaf> leaves;
};

/// Records a training step below autograd: every op of forward, backward and optimizer with its module, every storage
/// of the device, and the tensors that autograd saves. The recording tells how long the program holds a storage,
/// and separately how long autograd holds the storage.
///
/// On a real device (`real` not null), autograd keeps saved tensors, and a storage is freed with the storage's last
/// holder. Such a step gives times and the true course of memory, but cannot be used for planning.
///
/// At most one recorder is active in a process. The thread that calls begin() runs the step; autograd's device thread
/// inherits what the thread needs. On the simulated device, shadows replace saved tensors. Storages of shadows do not
/// count, so that a storage's free event shows the program's own lifetime.
class Recorder
{
public:
    Recorder(StepInfo info, DeviceSpec device, std::shared_ptr<RealDevice> real = nullptr);
    ~Recorder();
    Recorder(const Recorder&) = delete;
    Recorder& operator=(const Recorder&) = delete;

    /// Declares the model; gradients get names from the model. Before begin(). begin() drops the model's tensors:
    /// the recorded program alone decides how long tensors live.
    void setModel(ModelTree tree);
    /// Declares a tensor of the batch, counted as input. Before begin().
    void addInput(const at::Tensor& tensor);
    /// Declares a tensor that exists before the step, such as the optimizer's state; the first declaration of a storage
    /// counts. Before begin().
    void addState(const at::Tensor& tensor, Category category = Category::optimizer);
    /// Declares a result of the previous step that the training loop still holds; the result counts as activation,
    /// as in MemTracker. Before begin(). Storages that are alive at begin() and were never declared count as `other`.
    void addHeldResult(const at::Tensor& tensor);
    /// Declares that the step follows a recorded step with this end state. Storages that were alive then and are not
    /// declared keep the category; newer storages are the batch. Before begin().
    void setStateBefore(std::unordered_map<const void*, Category> endState);

    /// Leaves the tensors that autograd saves unchanged. Compiled autograd recognises a tensor that two nodes
    /// saved; with hooks, compiled autograd would see two tensors. Such a step cannot be used for planning.
    /// Before begin().
    void leaveSaves();

    /// Starts recording. The storages that are alive on the device now are the step's start state.
    void begin();
    /// Start and end of the optimizer's step: ops in between have phase optimizer. `state`: the tensors that the
    /// optimizer keeps.
    void beginOptimizer();
    void endOptimizer(at::ArrayRef<at::Tensor> state);
    /// Start and end of the code in which a program without an optimizer may update parameters itself. Between
    /// the two calls, ops that read parameters or gradients outside of autograd have phase optimizer, and so
    /// have the ops that follow.
    void beginOwnUpdate();
    void endOwnUpdate();
    void beginZeroGrad();
    /// The gradients are cleared but the step continues, as in a loop that clears gradients before backward. Marks
    /// zeroGradEnd.
    void endZeroGrad();
    /// Marks forwardEnd or backwardEnd; the functions above and finish() mark stepEnd and zeroGradEnd. Ops between the
    /// two have phase backward, including the creation of the first gradient.
    void mark(Mark mark);
    /// Start and end of a backward pass that builds a graph of the pass itself (create_graph=True).
    void setBuildsBackwardGraph(bool builds);
    /// Start and end of a backward pass that compiled autograd runs. Compiled autograd sees the hooks of parameters:
    /// meanwhile parameters have no hooks, and gradients get the category at the end.
    void setCompilesBackward(bool compiles);
    /// Start and end of a checkpoint's recomputation. Inside a torch.autograd.Function, neither gradients nor modules
    /// show the recomputation.
    void setRecomputes(bool recomputes);
    /// Says that setRecomputes() reports every recomputation except in reentrant checkpoints, so that another
    /// forward inside of a backward is none.
    void reportsRecomputations();
    /// Start and end of a compilation by PyTorch: the compilation's ops are not part of the step.
    void setCompiles(bool compiles);
    /// Sets what the program allocates outside of steps. Between begin() and finish().
    void setOutside(const OutsideMemory& outside);
    /// The facts of the step; the caller fills in the rest between begin() and finish().
    StepInfo& info();
    /// Returns the storages that are alive now, for setStateBefore() of the next step's recorder. Between begin() and
    /// finish().
    std::unordered_map<const void*, Category> endState() const;
    /// Ends the step (a step that clears gradients ends after the clearing): stops recording, builds and validates the
    /// trace. Call finish() on the thread of begin(). Error (internal): another recorder was active at begin(), begin()
    /// was not called, or the trace is invalid; the sentence says what is wrong.
    Result<StepTracePtr> finish();

    /// Start and end of a module's forward. enter() and exit() register tensor hooks that mark the module's backward as
    /// ModTracker does. Both do nothing while no recorder is active, so that models may always call both. Calls nest.
    /// If an exception passes through a call (as when a checkpoint stops a recomputation), exit the call without
    /// results.
    static CallId enter(ModuleId module, at::ArrayRef<at::Tensor> arguments);
    static void exit(CallId call, at::ArrayRef<at::Tensor> results);
    /// Adds tensors inside objects among the arguments of a call that has begun, with places. A place is a number
    /// with the same meaning for all calls of the module; negative: a checkpoint holds the tensor, read or
    /// not.
    static void addHeld(CallId call, at::ArrayRef<at::Tensor> tensors, at::IntArrayRef places);
    /// Takes back what addHeld() added at `places`, during the call.
    static void removeHeld(CallId call, at::IntArrayRef places);
    /// Attributes the following ops of compiled code to the module at `path` inside the compiled region (".layers.0"),
    /// until the next call. `inside` false: the compiled region has returned.
    static void setOrigin(std::string_view path, bool inside);

private:
    struct State;
    std::unique_ptr<State> state_;
};

} // namespace headroom
