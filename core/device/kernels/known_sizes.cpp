// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/device/kernels/known_sizes.h"

#include "core/device/known_storage.h"
#include "core/device/meta_call.h"
#include "core/device/placeholder_values.h"
#include "core/device/simulated_state.h"

#include <ATen/ops/aminmax.h>
#include <ATen/ops/count_nonzero.h>
#include <ATen/ops/max.h>
#include <ATen/ops/sum.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace headroom::sim {
namespace {

/// Returns the result of `compute` for the values; nullopt, counted as a placeholder, if the values are not known.
template <class Compute>
std::optional<std::int64_t> fromValues(const at::Tensor& tensor, Compute&& compute)
{
    const bool known = isSimulated(tensor.device()) && knownPart(tensor) == Known::all;
    if (!known || assumptionsOf(tensor).placeholder)
        countPlaceholder(Placeholder::size);
    if (!known)
        return std::nullopt;
    const c10::impl::ExcludeDispatchKeyGuard guard(keysAboveBackend());
    return compute(valuesOf(tensor)).template item<std::int64_t>();
}

} // namespace

std::int64_t countNonzero(const at::Tensor& tensor)
{
    if (tensor.numel() == 0)
        return 0;
    return fromValues(tensor, [](const at::Tensor& values) { return at::count_nonzero(values); })
        .value_or(tensor.numel());
}

std::optional<std::int64_t> largestElement(const at::Tensor& tensor)
{
    return fromValues(tensor, [](const at::Tensor& values) { return at::max(values); });
}

std::optional<std::int64_t> sumOfElements(const at::Tensor& tensor)
{
    if (tensor.numel() == 0)
        return 0;
    return fromValues(tensor, [](const at::Tensor& values) { return at::sum(values); });
}

std::optional<std::int64_t> indexOutside(const at::Tensor& index, std::int64_t least, std::int64_t size,
                                         std::optional<std::int64_t> ignored)
{
    const bool onDevice = isSimulated(index.device());
    if (index.numel() == 0 || (onDevice ? assumptionsOf(index).placeholder : !index.is_cpu()))
        return std::nullopt;
    at::Tensor values = onDevice ? valuesOf(index) : index; // unknown elements are zeros
    if (!values.defined())
        return std::nullopt;
    const c10::impl::ExcludeDispatchKeyGuard guard(keysAboveBackend());
    if (ignored)
        values = values.masked_fill(values.eq(*ignored), 0);
    const auto [smallest, largest] = at::aminmax(values);
    const auto last = largest.item<std::int64_t>();
    const auto first = smallest.item<std::int64_t>();
    if (last >= size)
        return last;
    return first < least ? std::optional(first) : std::nullopt;
}

void checkTargets(const at::Tensor& target, std::int64_t classes, std::int64_t ignored)
{
    const auto outside = indexOutside(target, 0, classes, ignored);
    TORCH_CHECK_INDEX(!outside, "Target ", outside.value_or(0), " is out of bounds.");
}

} // namespace headroom::sim
