// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/record/wrapper_tensor.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace headroom {
namespace {

/// The results of an op of Python, none of which is the step's.
at::IValue ask(const char* name, std::vector<at::IValue> stack)
{
    const c10::impl::ExcludeDispatchKeyGuard unrecorded(c10::DispatchKey::Fake);
    c10::Dispatcher::singleton().findSchemaOrThrow(name, "").callBoxed(stack);
    return std::move(stack.front());
}

} // namespace

std::vector<at::Tensor> partsOf(const at::Tensor& tensor)
{
    if (!tensor.key_set().has(c10::DispatchKey::Python))
        return {};
    return ask("torch_headroom::parts", {tensor}).toTensorVector();
}

at::Tensor withParts(const at::Tensor& tensor, const std::vector<at::Tensor>& parts)
{
    return ask("torch_headroom::with_parts", {tensor, parts}).toTensor();
}

} // namespace headroom
