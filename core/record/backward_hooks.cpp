// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/record/backward_hooks.h"

#include "core/record/node_table.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <functional>
#include <unordered_map>

namespace headroom {
namespace {

using torch::autograd::FunctionPreHook;
using torch::autograd::variable_list;

/// Calls `notify` with the gradient of one tensor; changes nothing.
class GradientNotice final : public FunctionPreHook
{
public:
    GradientNotice(std::size_t index, std::function<void(const at::Tensor&)> notify)
        : index_(index)
        , notify_(std::move(notify))
    {
    }
    variable_list operator()(const variable_list& gradients) override
    {
        notify_(gradients[index_]);
        return gradients;
    }
    /// Adds nothing: compiled autograd compiles the program's graph without this hook.
    void compiled_args(torch::dynamo::autograd::CompiledNodeArgs& /*args*/) const override {}

private:
    std::size_t index_;
    std::function<void(const at::Tensor&)> notify_;
};

/// The point in the autograd graph at which the gradient of a tensor arrives. All pointers are weak: a leaf's node
/// (AccumulateGrad) would hold the leaf.
class GradientEdge
{
public:
    explicit GradientEdge(const at::Tensor& tensor)
        : leaf_(c10::weak_intrusive_ptr<c10::TensorImpl>(
            tensor.is_leaf() ? tensor.getIntrusivePtr()
                             : c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>()))
        , node_(tensor.is_leaf() ? NodePtr() : tensor.grad_fn())
    {
    }

    /// Returns whether the running backward pass computes the gradient (_will_engine_execute_node).
    bool willBeComputed() const
    {
        const NodePtr node = this->node();
        const auto* nodes = torch::autograd::get_current_graph_task_nodes_in_graph();
        if (!node || !nodes || nodes->find(node.get()) == nodes->end())
            return false;
        const auto* selection = torch::autograd::get_current_graph_task_exec_info();
        if (!selection || selection->empty())
            return true;
        const auto selected = selection->find(node.get());
        return selected != selection->end() && selected->second.should_execute();
    }

private:
    NodePtr node() const
    {
        if (NodePtr node = node_.lock())
            return node;
        const auto leaf = leaf_.lock();
        return leaf ? torch::autograd::impl::try_get_grad_accumulator(at::Tensor(leaf)) : NodePtr();
    }

    c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl> leaf_;
    WeakNodePtr node_;
};

/// Adds a hook to a leaf. add_hook() allows a single hook for each leaf, but a leaf may be an argument of several
/// modules.
void addLeafHook(const at::Tensor& leaf, std::unique_ptr<FunctionPreHook> hook)
{
    torch::autograd::impl::hooks(leaf).push_back(std::move(hook));
}

/// Calls `notify` with a tensor's gradient: at the node that created the tensor or, for a leaf, before accumulation.
void addNotice(const at::Tensor& tensor, std::function<void(const at::Tensor&)> notify)
{
    if (tensor.is_leaf())
        addLeafHook(tensor, std::make_unique<GradientNotice>(0, std::move(notify)));
    else
        tensor.grad_fn()->add_tensor_pre_hook(std::make_unique<GradientNotice>(tensor.output_nr(), std::move(notify)));
}

std::vector<at::Tensor> needingGradient(at::ArrayRef<at::Tensor> tensors)
{
    std::vector<at::Tensor> result;
    for (const at::Tensor& tensor : tensors) {
        if (tensor.defined() && tensor.requires_grad())
            result.push_back(tensor);
    }
    return result;
}

/// Counts the gradients of a call's arguments in each backward pass.
struct Countdown
{
    std::vector<GradientEdge> edges;
    std::unordered_map<int, std::int64_t> missing; ///< by backward pass

    /// Counts an arrived gradient. Returns whether that gradient was the last.
    bool arrived()
    {
        const int pass = torch::autograd::get_current_graph_task_id();
        const auto [entry, isFirst] = missing.try_emplace(pass, 0);
        if (isFirst)
            entry->second
                = std::count_if(edges.begin(), edges.end(), [](const GradientEdge& e) { return e.willBeComputed(); });
        if (--entry->second != 0)
            return false;
        missing.erase(entry);
        return true;
    }
};

/// Exits the calls without an argument that needs a gradient when the engine is done (_maybe_set_engine_callback).
void exitCallsAfterBackward(const std::shared_ptr<StepRecording>& recording)
{
    std::vector<CallId> calls;
    if (!recording->takeCallsToExit(calls))
        return;
    auto& engine = torch::autograd::Engine::get_default_engine();
    const std::weak_ptr<StepRecording> weak = recording;
    for (const CallId call : calls) {
        engine.queue_callback([weak, call] {
            if (const auto alive = weak.lock())
                alive->backwardExit(call);
        });
    }
    engine.queue_callback([weak] {
        if (const auto alive = weak.lock())
            alive->backwardPassEnded();
    });
}

/// Gives the accumulated gradient the category gradient, then calls the parameter's previous hook.
class AccumulatedNotice final : public torch::autograd::PostAccumulateGradHook
{
public:
    AccumulatedNotice(std::weak_ptr<StepRecording> recording,
                      std::unique_ptr<torch::autograd::PostAccumulateGradHook> next)
        : recording_(std::move(recording))
        , next_(std::move(next))
    {
    }
    void operator()(const at::Tensor& parameter) override
    {
        if (const auto recording = recording_.lock())
            recording->retype(parameter.grad(), Category::gradient);
        if (next_)
            (*next_)(parameter);
    }
    std::unique_ptr<torch::autograd::PostAccumulateGradHook> takeNext() { return std::move(next_); }

private:
    std::weak_ptr<StepRecording> recording_;
    std::unique_ptr<torch::autograd::PostAccumulateGradHook> next_;
};

} // namespace

void hookArguments(const std::shared_ptr<StepRecording>& recording, CallId call, at::ArrayRef<at::Tensor> arguments)
{
    const std::vector<at::Tensor> tensors = needingGradient(arguments);
    if (tensors.empty()) {
        recording->exitAfterBackward(call);
        return;
    }
    const auto countdown = std::make_shared<Countdown>();
    for (const at::Tensor& tensor : tensors)
        countdown->edges.emplace_back(tensor);
    for (const at::Tensor& tensor : tensors) {
        addNotice(tensor, [weak = std::weak_ptr(recording), countdown, call](const at::Tensor&) {
            const auto alive = weak.lock();
            if (alive && countdown->arrived())
                alive->backwardExit(call);
        });
    }
}

void hookResults(const std::shared_ptr<StepRecording>& recording, CallId call, at::ArrayRef<at::Tensor> results)
{
    const auto passes = std::make_shared<std::vector<int>>(); // backward passes that have entered the call
    for (const at::Tensor& tensor : needingGradient(results)) {
        addNotice(tensor, [weak = std::weak_ptr(recording), passes, call](const at::Tensor&) {
            const int pass = torch::autograd::get_current_graph_task_id();
            const auto alive = weak.lock();
            if (!alive || std::find(passes->begin(), passes->end(), pass) != passes->end())
                return;
            passes->push_back(pass);
            exitCallsAfterBackward(alive);
            alive->backwardEnter(call);
        });
    }
}

GradientHooks::~GradientHooks()
{
    removeAll();
}

void GradientHooks::add(const std::shared_ptr<StepRecording>& recording, const at::Tensor& parameter)
{
    const std::weak_ptr<StepRecording> weak = recording;
    auto arrival = std::make_unique<GradientNotice>(0, [weak](const at::Tensor& gradient) {
        if (const auto alive = weak.lock())
            alive->retype(gradient, Category::gradient);
    });
    hooked_.push_back({WeakTensor(parameter.getIntrusivePtr()), arrival.get()});
    addLeafHook(parameter, std::move(arrival));
    auto next = std::move(torch::autograd::impl::post_acc_grad_hooks(parameter));
    torch::autograd::impl::set_post_acc_grad_hooks(parameter,
                                                   std::make_unique<AccumulatedNotice>(weak, std::move(next)));
}

std::vector<at::Tensor> GradientHooks::removeAll()
{
    std::vector<at::Tensor> parameters;
    for (const Hooked& hooked : hooked_) {
        auto alive = hooked.parameter.lock();
        if (!alive)
            continue;
        const at::Tensor& parameter = parameters.emplace_back(std::move(alive));
        auto& hooks = torch::autograd::impl::hooks(parameter);
        std::erase_if(hooks, [&](const auto& hook) { return hook.get() == hooked.arrival; });
        auto& accumulated = torch::autograd::impl::post_acc_grad_hooks(parameter);
        if (auto* notice = dynamic_cast<AccumulatedNotice*>(accumulated.get()))
            accumulated = notice->takeNext();
    }
    hooked_.clear();
    return parameters;
}

} // namespace headroom
