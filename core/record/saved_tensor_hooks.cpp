// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/record/saved_tensor_hooks.h"

#include <ATen/core/VariableHooksInterface.h>
#include <torch/csrc/autograd/engine.h>

#include <atomic>
#include <utility>

namespace headroom {
namespace {

thread_local const SavedTensorHooksFactory* innermost = nullptr;
thread_local c10::TensorImpl* toSave = nullptr; ///< the tensor of the last is_leaf()
std::atomic<GradFnObserver> gradFnObserver{nullptr};
std::atomic<DataObserver> dataObserver{nullptr};

SavedTensorHooksFactory& defaultFactory()
{
    static auto* const factory
        = new SavedTensorHooksFactory; // never destroyed: autograd's threads may call the factory after main()
    return *factory;
}

/// An autograd engine that gives libtorch the default hooks of saved tensors. All work goes on to the engine that was
/// installed before, libtorch's or Python's.
class HookingEngine final : public torch::autograd::Engine
{
public:
    /// Installs this engine before the engine of the process, and again after `import torch` has installed Python's.
    static void install()
    {
        torch::autograd::Engine& current = torch::autograd::Engine::get_default_engine();
        if (&current == &instance())
            return;
        instance().inner_ = &current;
        torch::autograd::set_default_engine_stub([]() -> torch::autograd::Engine& { return instance(); });
    }

    std::unique_ptr<torch::autograd::SavedVariableHooks> get_default_saved_variable_hooks() override
    {
        // Hooks of the program (torch.autograd.graph.saved_tensors_hooks) are innermost: only the innermost hooks
        // apply.
        if (auto hooks = inner_->get_default_saved_variable_hooks())
            return hooks;
        const SavedTensorHooksFactory& factory = innermost ? *innermost : defaultFactory();
        return factory ? factory() : nullptr;
    }
    torch::autograd::variable_list execute(const torch::autograd::edge_list& roots,
                                           const torch::autograd::variable_list& inputs, bool keepGraph,
                                           bool createGraph, bool accumulateGrad,
                                           const torch::autograd::edge_list& outputs) override
    {
        return inner_->execute(roots, inputs, keepGraph, createGraph, accumulateGrad, outputs);
    }
    c10::intrusive_ptr<at::ivalue::Future>
    execute_with_graph_task(const std::shared_ptr<torch::autograd::GraphTask>& task, NodePtr root,
                            torch::autograd::InputBuffer&& input) override
    {
        return inner_->execute_with_graph_task(task, std::move(root), std::move(input));
    }
    std::unique_ptr<torch::autograd::AnomalyMetadata> make_anomaly_metadata() override
    {
        return inner_->make_anomaly_metadata();
    }

private:
    HookingEngine() = default;
    static HookingEngine& instance()
    {
        static auto* const engine = new HookingEngine; // never destroyed: used as long as the process lives
        return *engine;
    }

    torch::autograd::Engine* inner_ = nullptr;
};

/// libtorch's interface to autograd's data of a tensor. All calls go on to `inner`; three calls are noted. A saved
/// variable calls is_leaf() on the tensor just before asking for hooks. A saved variable without hooks calls grad_fn()
/// on the tensor when a node unpacks the tensor.
class NotingVariableHooks final : public at::impl::VariableHooksInterface
{
    using Interface = at::impl::VariableHooksInterface;
    using Base = at::TensorBase;
    using GradFn = decltype(std::declval<const Interface&>().grad_fn(std::declval<const Base&>()));
    using DType = std::optional<c10::ScalarType>;

public:
    static void install()
    {
        static auto* const hooks = [] {
            auto* const made
                = new NotingVariableHooks(*at::impl::GetVariableHooks()); // never destroyed: tensors use the hooks
            at::impl::SetVariableHooks(made);
            return made;
        }();
        (void)hooks;
    }

    bool is_leaf(const Base& tensor) const override
    {
        toSave = tensor.unsafeGetTensorImpl();
        return inner_.is_leaf(tensor);
    }
    GradFn grad_fn(const Base& tensor) const override
    {
        GradFn node = inner_.grad_fn(tensor);
        if (const GradFnObserver observe = gradFnObserver.load(std::memory_order_relaxed))
            observe(tensor, node);
        return node;
    }

    void set_data(const Base& tensor, const Base& data) const override
    {
        if (const DataObserver observe = dataObserver.load(std::memory_order_relaxed))
            observe(tensor, data);
        inner_.set_data(tensor, data);
    }

#define HEADROOM_FORWARD(Result, name, parameters, arguments)                                                          \
    Result name parameters const override                                                                              \
    {                                                                                                                  \
        return inner_.name arguments;                                                                                  \
    }
    HEADROOM_FORWARD(Base, tensor_data, (const Base& tensor), (tensor))
    HEADROOM_FORWARD(Base, variable_data, (const Base& tensor), (tensor))
    HEADROOM_FORWARD(unsigned, _register_hook, (const Base& tensor, std::function<Base(const Base&)> hook),
                     (tensor, std::move(hook)))
    HEADROOM_FORWARD(void, remove_hook, (const Base& tensor, unsigned position), (tensor, position))
    HEADROOM_FORWARD(bool, is_view, (const Base& tensor), (tensor))
    HEADROOM_FORWARD(const Base&, base, (const Base& tensor), (tensor))
    HEADROOM_FORWARD(const std::string&, name, (const Base& tensor), (tensor))
    HEADROOM_FORWARD(std::int64_t, output_nr, (const Base& tensor), (tensor))
    HEADROOM_FORWARD(Base, data, (const Base& tensor), (tensor))
    HEADROOM_FORWARD(std::int64_t, _version, (const Base& tensor), (tensor))
    HEADROOM_FORWARD(void, retain_grad, (const Base& tensor), (tensor))
    HEADROOM_FORWARD(bool, retains_grad, (const Base& tensor), (tensor))
    HEADROOM_FORWARD(void, _backward,
                     (const at::Tensor& tensor, at::TensorList inputs, const std::optional<at::Tensor>& gradient,
                      std::optional<bool> keepGraph, bool createGraph),
                     (tensor, inputs, gradient, keepGraph, createGraph))
    HEADROOM_FORWARD(void, requires_grad_, (const Base& tensor, bool needs), (tensor, needs))
    HEADROOM_FORWARD(void, basic_autograd_not_implemented_fallback,
                     (const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack),
                     (op, keys, stack))
    HEADROOM_FORWARD(DType, grad_dtype, (const Base& tensor), (tensor))
    HEADROOM_FORWARD(void, set_grad_dtype, (const Base& tensor, const DType& type), (tensor, type))
#undef HEADROOM_FORWARD

private:
    explicit NotingVariableHooks(const Interface& inner)
        : inner_(inner)
    {
    }

    const Interface& inner_;
};

} // namespace

at::Tensor tensorToSave()
{
    using Pointer = c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
    return toSave ? at::Tensor(Pointer::reclaim_copy(toSave)) : at::Tensor();
}

void setGradFnObserver(GradFnObserver observer)
{
    gradFnObserver = observer;
}

void setDataObserver(DataObserver observer)
{
    NotingVariableHooks::install();
    dataObserver = observer;
}

SavedTensorHooksScope::SavedTensorHooksScope(SavedTensorHooksFactory factory)
    : factory_(std::move(factory))
    , outer_(std::exchange(innermost, &factory_))
{
    HookingEngine::install();
    NotingVariableHooks::install();
}

SavedTensorHooksScope::~SavedTensorHooksScope()
{
    innermost = outer_;
}

void setDefaultSavedTensorHooks(SavedTensorHooksFactory factory)
{
    HookingEngine::install();
    NotingVariableHooks::install();
    defaultFactory() = std::move(factory);
}

} // namespace headroom
