// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/record/saved_tensor_hooks.h"

#include "core/record/autograd_node.h"

#include <torch/csrc/autograd/engine.h>

#include <utility>

namespace headroom {
namespace {

thread_local const SavedTensorHooksFactory* innermost = nullptr;

SavedTensorHooksFactory& defaultFactory()
{
    static auto* const factory
        = new SavedTensorHooksFactory; // never destroyed: autograd's threads may use it after main()
    return *factory;
}

/// An autograd engine that gives libtorch the default hooks of saved tensors. It forwards all work to the engine that
/// was installed before, libtorch's or Python's.
class HookingEngine final : public torch::autograd::Engine
{
public:
    /// Installs this engine before the one of the process, and again after `import torch` has installed Python's.
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
        // The hooks of the program (torch.autograd.graph.saved_tensors_hooks) are the innermost: only they apply.
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

} // namespace

SavedTensorHooksScope::SavedTensorHooksScope(SavedTensorHooksFactory factory)
    : factory_(std::move(factory))
    , outer_(std::exchange(innermost, &factory_))
{
    HookingEngine::install();
}

SavedTensorHooksScope::~SavedTensorHooksScope()
{
    innermost = outer_;
}

void setDefaultSavedTensorHooks(SavedTensorHooksFactory factory)
{
    HookingEngine::install();
    defaultFactory() = std::move(factory);
}

} // namespace headroom
