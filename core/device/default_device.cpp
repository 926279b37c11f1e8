// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/device/boxed_values.h"
#include "core/device/simulated_device.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <algorithm>
#include <optional>

namespace headroom::sim {
namespace {

using c10::DispatchKey;

/// The key of a kernel that sees every op first. libtorch itself does not use it.
constexpr DispatchKey topKey = DispatchKey::DeferredInit;

/// Sets the argument `device` of a factory function that was called without one, as Python's device context does
/// (torch/utils/_device.py). Like that one, it leaves the ops that the function calls as they are.
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

} // namespace headroom::sim
