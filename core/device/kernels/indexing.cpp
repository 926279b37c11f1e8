// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// Indexing by masks and by boxes. How many elements are selected depends on values: where these are not known, it is
// taken to be all of them, and counted as an invented value.
#include "core/device/kernels/allocate.h"
#include "core/device/kernels/known_sizes.h"
#include "core/device/meta_call.h"
#include "core/device/simulated_state.h"

#include <ATen/core/List_inl.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

namespace headroom::sim {
namespace {

using at::Tensor;

bool isMask(const c10::IValue& value)
{
    return value.isTensor() && value.toTensor().defined()
        && (value.toTensor().scalar_type() == at::kBool || value.toTensor().scalar_type() == at::kByte);
}

/// A mask of n dimensions stands for n lists of positions, as aten/src/ATen/native/IndexingUtils.h makes of it.
void appendPositions(c10::impl::GenericList& indices, const Tensor& mask)
{
    const std::int64_t selected = countNonzero(mask);
    for (std::int64_t dim = 0; dim < mask.dim(); ++dim)
        indices.push_back(c10::IValue(emptyTensor({selected}, at::kLong)));
}

void index(const c10::OperatorHandle& op, torch::jit::Stack* stack)
{
    c10::IValue& argument = stack->back();
    bool masked = false;
    for (const c10::IValue& element : argument.toListRef())
        masked = masked || isMask(element);
    if (masked) {
        c10::impl::GenericList indices(argument.toList().elementType());
        for (const c10::IValue& element : argument.toListRef()) {
            if (isMask(element))
                appendPositions(indices, element.toTensor());
            else
                indices.push_back(element);
        }
        argument = c10::IValue(indices);
    }
    callMeta(op, stack);
}

/// torchvision::nms(boxes, scores, threshold): which boxes are kept, here all of them.
Tensor suppressNothing(const Tensor& boxes, const Tensor&, double)
{
    ++simulatedState().inventedValues;
    return emptyTensor({boxes.size(0)}, at::kLong);
}

TORCH_LIBRARY_IMPL(torchvision, PrivateUse1, library)
{
    library.impl("nms", suppressNothing);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library)
{
    library.impl("index.Tensor", torch::CppFunction::makeFromBoxedFunction<&index>());
}

} // namespace
} // namespace headroom::sim
