// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/record/saved_tensor_hooks.h"

#include <torch/csrc/autograd/engine.h>

#include <utility>

namespace headroom {
namespace {

thread_local const SavedTensorHooksFactory* innermost = nullptr;

SavedTensorHooksFactory& defaultFactory()
{
    static auto* const factory = new SavedTensorHooksFactory; // autograd's threads may ask after main() has ended
    return *factory;
}

/// The autograd engine, which libtorch asks for default hooks of saved tensors. Only Python's engine answers otherwise.
class HookingEngine final : public torch::autograd::Engine
{
public:
    static torch::autograd::Engine& instance()
    {
        static auto* const engine = new HookingEngine; // its threads never end
        return *engine;
    }

    std::unique_ptr<torch::autograd::SavedVariableHooks> get_default_saved_variable_hooks() override
    {
        const SavedTensorHooksFactory& factory = innermost ? *innermost : defaultFactory();
        return factory ? factory() : nullptr;
    }

private:
    HookingEngine() = default;
};

/// Before the first backward pass, since the threads of an engine are started once in a process. Not in place of
/// Python's engine.
const bool installed = [] {
    using torch::autograd::Engine;
    if (&Engine::get_default_engine() != &Engine::get_base_engine())
        return false;
    torch::autograd::set_default_engine_stub(&HookingEngine::instance);
    return true;
}();

} // namespace

SavedTensorHooksScope::SavedTensorHooksScope(SavedTensorHooksFactory factory)
    : factory_(std::move(factory))
    , outer_(std::exchange(innermost, &factory_))
{
}

SavedTensorHooksScope::~SavedTensorHooksScope()
{
    innermost = outer_;
}

void setDefaultSavedTensorHooks(SavedTensorHooksFactory factory)
{
    defaultFactory() = std::move(factory);
}

} // namespace headroom
