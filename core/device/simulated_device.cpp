// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/device/simulated_device.h"

#include "core/device/boxed_values.h"
#include "core/device/simulated_state.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/DeviceType.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <optional>
#include <thread>

namespace headroom::sim {

SimulatedState& simulatedState()
{
    static auto* const state = new SimulatedState;
    return *state;
}

void initialize(const DeviceSpec& spec)
{
    simulatedState().spec = spec;
    static std::once_flag once;
    std::call_once(once, [] {
        c10::register_privateuse1_backend("sim");
        registerHooks();
        registerMetaKernels();
    });
}

void keepValues()
{
    simulatedState().keepsValues = true;
}

at::Device device()
{
    return {simulatedState().type, 0};
}

MemoryStats memoryStats()
{
    return simulatedState().allocator.stats();
}

void emptyCache()
{
    simulatedState().allocator.emptyCache();
}

void resizeStorage(c10::StorageImpl& storage, Bytes bytes)
{
    simulatedState().allocator.resize(storage, bytes);
}

void resetPeak()
{
    simulatedState().allocator.resetPeak();
}

std::vector<Fallback> fallbacks()
{
    SimulatedState& state = simulatedState();
    const std::lock_guard lock(state.fallbackMutex);
    std::vector<Fallback> result;
    for (const auto& [op, count] : state.fallbacks)
        result.push_back({op, count});
    return result;
}

std::int64_t placeholderValues()
{
    return simulatedState().placeholderValues;
}

namespace {

using c10::DispatchKey;

/// The key of a kernel that sees every op first. libtorch itself does not use this key.
constexpr DispatchKey topKey = DispatchKey::DeferredInit;

/// Sets the argument `device` of a factory function that was called without a device, as Python's device context does
/// (torch/utils/_device.py). Like that context, fillInDevice() leaves the ops that the function calls unchanged.
void fillInDevice(const c10::OperatorHandle& op, torch::jit::Stack* stack)
{
    const auto values = argumentsOf(op, *stack);
    if (std::ranges::any_of(values, &c10::IValue::isTensor))
        return;
    const std::optional<int> position = op.schema().argumentIndexWithName("device");
    if (position && values[static_cast<std::size_t>(*position)].isNone())
        values[static_cast<std::size_t>(*position)] = c10::IValue(device());
}

void onTop(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack)
{
    fillInDevice(op, stack);
    const c10::impl::ExcludeDispatchKeyGuard guard(topKey);
    op.callBoxed(stack);
}

TORCH_LIBRARY_IMPL(_, DeferredInit, library)
{
    library.fallback(torch::CppFunction::makeFromBoxedFunction<&onTop>());
}

} // namespace

DefaultDevice::DefaultDevice()
    : outer_(c10::impl::tls_is_dispatch_key_included(topKey))
{
    c10::impl::tls_set_dispatch_key_included(topKey, true);
}

DefaultDevice::~DefaultDevice()
{
    c10::impl::tls_set_dispatch_key_included(topKey, outer_);
}

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Passes the gradient on. The backward pass runs no op and leaves no Python object in autograd's thread.
struct Identity : torch::autograd::Function<Identity>
{
    static at::Tensor forward(AutogradContext*, const at::Tensor& input) { return at::empty_like(input); }
    static variable_list backward(AutogradContext*, variable_list gradients) { return gradients; }
};

} // namespace

void awaitAutogradThread()
{
    // The thread runs its tasks in order: when this task is done, all earlier tasks have been released.
    const c10::AutoGradMode gradients(true);
    const at::TensorOptions none = at::device(device());
    const at::Tensor input = at::empty({0}, none).requires_grad_();
    const at::Tensor output = Identity::apply(input);
    torch::autograd::grad({output}, {input}, {at::empty({0}, none)});
}

namespace {

/// A note in the thread's debug info. The GraphTask of a backward pass copies the thread's state, and with the state a
/// reference to the note. The GraphTask also holds the gradients that the pass returns.
class PassNote final : public c10::DebugInfoBase
{
};

} // namespace

void beginReturningGradients()
{
    c10::ThreadLocalDebugInfo::_push(c10::DebugInfoKind::TEST_INFO, std::make_shared<PassNote>());
}

void endReturningGradients()
{
    const std::weak_ptr<c10::DebugInfoBase> note = c10::ThreadLocalDebugInfo::_pop(c10::DebugInfoKind::TEST_INFO);
    // The limit is for programs with other copies of the thread's state, such as callbacks of a collective.
    const auto limit = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
    while (!note.expired() && std::chrono::steady_clock::now() < limit)
        std::this_thread::yield();
}

} // namespace headroom::sim
