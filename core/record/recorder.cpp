// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/record/recorder.h"

#include "core/record/backward_hooks.h"
#include "core/record/interceptor.h"
#include "core/record/outside_memory.h"
#include "core/record/saved_tensor_hooks.h"
#include "core/record/shadow_save.h"
#include "core/record/step_recording.h"

#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/version.h>

#include <optional>
#include <utility>

namespace headroom {
namespace {

/// Whether a tensor is a leaf and requires a gradient itself. A view made without a graph, as in the forward of a
/// torch.autograd.Function, is a leaf, but requires a gradient only through the base.
bool isOwnLeaf(const at::Tensor& tensor)
{
    const auto* meta = torch::autograd::impl::get_autograd_meta(tensor);
    return meta && meta->requires_grad_ && tensor.is_leaf();
}

} // namespace

struct Recorder::State
{
    StepInfo info;
    DeviceSpec device;
    std::shared_ptr<RealDevice> real;
    ModelTree tree;
    std::vector<std::pair<at::Tensor, Category>> declared;
    std::optional<StepRecording::EndState> before;
    std::shared_ptr<StepRecording> recording;
    std::optional<Interception> interception;
    GradientHooks gradientHooks;
    std::vector<at::Tensor> unhooked; ///< while compiled autograd runs
    bool leavesSaves = false;
    bool clearsGradients = false;
    bool refused = false; ///< another recorder was active
    at::CallbackHandle nodesRun = at::INVALID_CALLBACK_HANDLE;

    void hookSaves();
    void declareModel();
    void registerModel();
    void stop();
};

Recorder::Recorder(StepInfo info, DeviceSpec device, std::shared_ptr<RealDevice> real)
    : state_(std::make_unique<State>())
{
    state_->info = std::move(info);
    state_->device = std::move(device);
    state_->real = std::move(real);
    state_->info.simulated = !state_->real;
    if (state_->info.torch.empty())
        state_->info.torch = TORCH_VERSION;
    if (state_->info.gpu.empty())
        state_->info.gpu = state_->device.name;
    if (state_->info.device.empty())
        state_->info.device = state_->real ? state_->real->device().str() : "sim";
}

Recorder::~Recorder()
{
    state_->stop();
}

void Recorder::setModel(ModelTree tree)
{
    state_->tree = std::move(tree);
}

void Recorder::addInput(const at::Tensor& tensor)
{
    state_->declared.emplace_back(tensor, Category::input);
}

void Recorder::addState(const at::Tensor& tensor, Category category)
{
    state_->declared.emplace_back(tensor, category);
}

void Recorder::addHeldResult(const at::Tensor& tensor)
{
    state_->declared.emplace_back(tensor, Category::activation);
}

void Recorder::setStateBefore(std::unordered_map<const void*, Category> endState)
{
    state_->before = std::move(endState);
}

void Recorder::leaveSaves()
{
    state_->leavesSaves = true;
}

void Recorder::State::declareModel()
{
    for (const ModelTree::Module& module : tree.modules)
        recording->addModule(module.fqn, module.type, module.parent);
    for (const ModelTree::Registered& registered : tree.registered) {
        recording->declare(registered.tensor, registered.category);
        if (registered.category == Category::parameter && registered.tensor.defined())
            recording->declare(registered.tensor.grad(), Category::gradient);
    }
    for (const auto& [tensor, category] : declared)
        recording->declare(tensor, category);
    for (const ModelTree::Leaf& leaf : tree.leaves) {
        recording->declare(leaf.tensor, leaf.category);
        recording->declare(leaf.tensor.grad(), Category::gradient);
    }
}

void Recorder::State::registerModel()
{
    for (const ModelTree::Registered& registered : tree.registered) {
        recording->addRegistered(registered.module, registered.name, registered.tensor, registered.category);
        const at::Tensor& tensor = registered.tensor;
        if (!tensor.defined() || !tensor.requires_grad() || !tensor.is_leaf())
            continue;
        if (recording->addLeaf(tensor, registered.module))
            gradientHooks.add(recording, tensor);
    }
    for (const ModelTree::Leaf& leaf : tree.leaves)
        if (leaf.tensor.requires_grad() && leaf.tensor.is_leaf())
            gradientHooks.add(recording, leaf.tensor);
    for (const auto& [module, tensor] : tree.wrapped)
        if (tensor.requires_grad() && tensor.is_leaf() && recording->addLeaf(tensor, module))
            gradientHooks.add(recording, tensor);
}

void Recorder::begin()
{
    State& state = *state_;
    state.refused = StepRecording::active() != nullptr;
    if (state.refused)
        return;
    state.recording = std::make_shared<StepRecording>(state.info, state.device, state.real);
    state.declareModel();
    state.recording->start(state.before ? &*state.before : nullptr);
    state.registerModel();
    state.declared.clear();
    state.tree = {}; // the program may drop the model within the step
    StepRecording::activate(state.recording);
    setDataObserver([](const at::TensorBase& tensor, const at::TensorBase& data) {
        if (const auto active = StepRecording::active())
            active->dataIsReplaced(at::Tensor(tensor), at::Tensor(data));
    });
    if (!state.real && !state.leavesSaves)
        state.hookSaves();
    state.interception.emplace();
}

/// Makes autograd's saves report to the recording. A leaf that requires a gradient itself gets no hooks (see
/// SavedLeaves).
void Recorder::State::hookSaves()
{
    setDefaultSavedTensorHooks([weak = std::weak_ptr(recording)]() -> std::unique_ptr<ShadowSave> {
        const auto alive = weak.lock();
        if (!alive || alive->compiles())
            return nullptr;
        const at::Tensor tensor = tensorToSave();
        if (!isOwnLeaf(tensor))
            return std::make_unique<ShadowSave>(alive);
        alive->packLeaf(tensor);
        return nullptr;
    });
    setGradFnObserver([](const at::TensorBase& tensor, const NodePtr& node) {
        if (node && !SavedLeaves::awaits(*node))
            return;
        const NodePtr running = node ? NodePtr() : torch::autograd::get_current_node();
        const auto active = node || running ? StepRecording::active() : nullptr;
        if (active && node)
            active->nodeIsMade(node);
        else if (active)
            active->leafIsAsked(tensor, *running);
    });
    const auto noContext = [](const at::RecordFunction&) -> std::unique_ptr<at::ObserverContext> { return nullptr; };
    const auto ends = [](const at::RecordFunction&, at::ObserverContext*) {
        const NodePtr node = torch::autograd::get_current_node();
        const auto active = StepRecording::active();
        if (node && active && !torch::autograd::get_current_graph_task_keep_graph())
            active->nodeHasRun(*node);
    };
    nodesRun = at::addGlobalCallback(
        at::RecordFunctionCallback(noContext, ends).scopes({at::RecordScope::BACKWARD_FUNCTION}));
}

void Recorder::State::stop()
{
    if (!recording)
        return;
    interception.reset();
    setDefaultSavedTensorHooks({});
    setGradFnObserver(nullptr);
    setDataObserver(nullptr);
    if (nodesRun != at::INVALID_CALLBACK_HANDLE)
        at::removeCallback(std::exchange(nodesRun, at::INVALID_CALLBACK_HANDLE));
    recording->giveBackSaved();
    StepRecording::activate(nullptr);
    gradientHooks.removeAll();
}

void Recorder::beginOptimizer()
{
    if (state_->recording)
        state_->recording->setPhase(Phase::optimizer);
}

void Recorder::endOptimizer(at::ArrayRef<at::Tensor> state)
{
    if (!state_->recording)
        return;
    for (const at::Tensor& tensor : state)
        state_->recording->retype(tensor, Category::optimizer);
    state_->recording->setPhase(Phase::forward);
    state_->recording->mark(Mark::stepEnd);
}

void Recorder::beginOwnUpdate()
{
    if (state_->recording)
        state_->recording->setOwnUpdate(true);
}

void Recorder::endOwnUpdate()
{
    if (!state_->recording)
        return;
    state_->recording->setOwnUpdate(false);
    state_->recording->mark(Mark::stepEnd);
}

void Recorder::beginZeroGrad()
{
    if (!state_->recording)
        return;
    state_->clearsGradients = true;
    state_->recording->setPhase(Phase::zeroGrad);
}

void Recorder::endZeroGrad()
{
    if (!state_->recording)
        return;
    state_->clearsGradients = false;
    state_->recording->mark(Mark::zeroGradEnd);
    state_->recording->setPhase(Phase::forward);
}

void Recorder::setBuildsBackwardGraph(bool builds)
{
    if (state_->recording)
        state_->recording->setBuildsBackwardGraph(builds);
}

void Recorder::setCompilesBackward(bool compiles)
{
    State& state = *state_;
    if (!state.recording)
        return;
    if (compiles) {
        state.unhooked = state.gradientHooks.removeAll();
        return;
    }
    for (const at::Tensor& parameter : std::exchange(state.unhooked, {})) {
        state.recording->retype(parameter.grad(), Category::gradient);
        state.gradientHooks.add(state.recording, parameter);
    }
}

void Recorder::setRecomputes(bool recomputes)
{
    if (state_->recording)
        state_->recording->setRecomputes(recomputes);
}

void Recorder::reportsRecomputations()
{
    if (state_->recording)
        state_->recording->reportsRecomputations();
}

void Recorder::setCompiles(bool compiles)
{
    if (state_->recording)
        state_->recording->setCompiles(compiles);
}

void Recorder::setOrigin(std::string_view path, bool inside)
{
    if (const auto recording = StepRecording::active())
        recording->setOrigin(path, inside);
}

StepInfo& Recorder::info()
{
    return state_->recording ? state_->recording->info() : state_->info;
}

void Recorder::setOutside(const OutsideMemory& outside)
{
    if (state_->recording)
        state_->recording->setOutside(outside.beforeTraining(), outside.betweenSteps());
}

std::unordered_map<const void*, Category> Recorder::endState() const
{
    return state_->recording ? state_->recording->endState() : StepRecording::EndState();
}

void Recorder::mark(Mark mark)
{
    if (state_->recording)
        state_->recording->mark(mark);
}

Result<StepTracePtr> Recorder::finish()
{
    State& state = *state_;
    if (state.refused)
        return Error{ErrorKind::internal, "Another step is being recorded: finish that recorder first."};
    if (!state.recording)
        return Error{ErrorKind::internal, "No step was recorded: call begin() before finish()."};
    if (state.clearsGradients)
        state.recording->mark(Mark::zeroGradEnd);
    state.stop();
    const std::shared_ptr<StepRecording> recording = std::move(state.recording);
    return recording->finish();
}

CallId Recorder::enter(ModuleId module, at::ArrayRef<at::Tensor> arguments)
{
    const auto recording = StepRecording::active();
    if (!recording)
        return {};
    const CallId call = recording->enter(module, arguments);
    if (torch::autograd::get_current_graph_task_id() == -1)
        hookArguments(recording, call, arguments);
    return call;
}

void Recorder::addHeld(CallId call, at::ArrayRef<at::Tensor> tensors, at::IntArrayRef places)
{
    // Without gradients checkpoint() only calls the function.
    if (const auto recording = StepRecording::active(); recording && call.valid() && at::GradMode::is_enabled())
        recording->addHeld(call, tensors, places);
}

void Recorder::removeHeld(CallId call, at::IntArrayRef places)
{
    if (const auto recording = StepRecording::active(); recording && call.valid())
        recording->removeHeld(call, places);
}

void Recorder::exit(CallId call, at::ArrayRef<at::Tensor> results)
{
    const auto recording = StepRecording::active();
    if (!recording || !call.valid())
        return;
    recording->exit(call, results);
    if (torch::autograd::get_current_graph_task_id() == -1)
        hookResults(recording, call, results);
}

} // namespace headroom
