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

/// The module tree of a model, in the order of model.modules(), as a source (demo, .pt2, TorchScript, Python) declares
/// it.
struct ModelTree
{
    struct Module
    {
        std::string fqn; ///< ModTracker's: "Transformer.layers.0"
        std::string type;
        ModuleId parent;
    };
    struct Registered
    {
        ModuleId module; ///< owner
        std::string name; ///< "weight"
        at::Tensor tensor; ///< holds the parameter while the tree lives
        Category category = Category::parameter; ///< parameter or buffer
    };
    std::vector<Module> modules;
    std::vector<Registered> registered;
};

/// Records one training step below autograd: every op of forward, backward and optimizer with its module, every storage
/// of the device, and the tensors that autograd saves, program and autograd holds apart.
///
/// On a real device, which is given, autograd keeps the tensors that it saves: their storages are freed when nobody
/// holds them any more, so that such a step tells times and the true course of memory, and cannot be planned on.
///
/// At most one is active in a process. The thread that calls begin() runs the step; autograd's device thread inherits
/// what it needs. While it is active, saved tensors are replaced by shadows whose storages are not counted, so that a
/// storage's free event shows the program's own lifetime (program and autograd hold apart).
class Recorder
{
public:
    Recorder(StepInfo info, DeviceSpec device, std::shared_ptr<RealDevice> real = nullptr);
    ~Recorder();
    Recorder(const Recorder&) = delete;
    Recorder& operator=(const Recorder&) = delete;

    /// Declares the model; names of gradients come from it. Before begin().
    void setModel(ModelTree tree);
    /// The batch: counted as inputs. Before begin().
    void addInput(const at::Tensor& tensor);
    /// Tensors of the optimizer's state that exist before the step. Before begin().
    void addOptimizerState(const at::Tensor& tensor);
    /// A result of the step before that the training loop still holds: counted as activation, as MemTracker does.
    /// Before begin(). What is alive at begin() and was never declared counts as `other`.
    void addHeldResult(const at::Tensor& tensor);
    /// The step follows one that was recorded: what was alive at its end and was not declared keeps its category, and
    /// what is newer than that is the batch. Before begin().
    void setStateBefore(std::unordered_map<const void*, Category> endState);

    /// The recorded step starts: what is alive on the device now is its start state.
    void begin();
    /// The optimizer's step begins / has ended: ops are of phase optimizer; `state` are the tensors it keeps.
    void beginOptimizer();
    void endOptimizer(at::ArrayRef<at::Tensor> state);
    /// The program, which has no optimizer, may change the parameters itself from here on / has done so: ops that take
    /// parameters or gradients, and that autograd does not see, are of phase optimizer, and so is what follows from
    /// them.
    void beginOwnUpdate();
    void endOwnUpdate();
    void beginZeroGrad();
    /// Gradients are cleared, and the step goes on, as where a loop clears them before backward. Marks the instant.
    void endZeroGrad();
    /// Marks an instant: forwardEnd, backwardEnd (stepEnd and zeroGradEnd are marked by endOptimizer() and finish()).
    /// What runs between the two is of phase backward, the making of the first gradient included.
    void mark(Mark mark);
    /// A backward pass begins or has ended that builds a graph of itself (create_graph=True).
    void setBuildsBackwardGraph(bool builds);
    /// A checkpoint begins to run its region again or has done so. Inside of a torch.autograd.Function neither
    /// gradients nor modules tell that.
    void setRecomputes(bool recomputes);
    /// PyTorch compiles from here on, or has done so: its ops are none of the step's.
    void setCompiles(bool compiles);
    /// What is known of the step; to be completed between begin() and finish().
    StepInfo& info();
    /// What the device holds now, for the recorder of the next step. Between begin() and finish().
    std::unordered_map<const void*, Category> endState() const;
    /// The step has ended (gradients cleared, if it does so): recording stops, the trace is built and validated. On the
    /// thread of begin().
    Result<StepTracePtr> finish();

    /// A module's forward begins / has ended. Registers tensor hooks that mark its backward as ModTracker does. Both do
    /// nothing when no recorder is active, so that models call them always. Calls nest: leave one also when an
    /// exception passes through it (a checkpoint stops its recomputation with one), then without results.
    static CallId enter(ModuleId module, at::ArrayRef<at::Tensor> arguments);
    static void exit(CallId call, at::ArrayRef<at::Tensor> results);
    /// Tensors inside of objects among the arguments of a call that has begun, and where they are: numbers that mean
    /// the same for all calls of the module, negative ones where a checkpoint holds the tensor whether it is read or
    /// not.
    static void addHeld(CallId call, at::ArrayRef<at::Tensor> tensors, at::IntArrayRef places);
    /// Ops of compiled code come from the module at this path inside of what was compiled (".layers.0") until the next
    /// call; `inside` false: what was compiled has returned.
    static void setOrigin(std::string_view path, bool inside);

private:
    struct State;
    std::unique_ptr<State> state_;
};

} // namespace headroom
