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

/// Sees every op before anything else does. libtorch leaves this key to code outside of it.
constexpr DispatchKey topKey = DispatchKey::DeferredInit;

/// Python's device context (torch/utils/_device.py) fills in `device` where a factory function was called without one.
/// What such a function calls in turn is left alone, as there.
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
