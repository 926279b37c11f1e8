// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// The op that stands for a kernel launched past PyTorch's dispatcher (Triton, extension modules). The step records the
// kernel under the given name; the time follows from the tensors read and written and from `flops`.
#include "core/device/simulated_state.h"

#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include <cstdint>
#include <string_view>

namespace headroom::sim {
namespace {

thread_local double flopsOfThread = 0;

/// The caller marks the written values as unknown (known_values.cpp).
void launch(std::string_view, at::TensorList, at::TensorList, std::int64_t flops)
{
    flopsOfThread += static_cast<double>(flops);
}

TORCH_LIBRARY(headroom, library)
{
    library.def("opaque(str name, Tensor[] reads, Tensor(a!)[] writes, int flops) -> ()");
}

TORCH_LIBRARY_IMPL(headroom, PrivateUse1, library)
{
    library.impl("opaque", launch);
}

// Autograd does not see the launch.
TORCH_LIBRARY_IMPL(headroom, Autograd, library)
{
    library.impl("opaque", torch::CppFunction::makeFallthrough());
}

} // namespace

double opaqueFlops()
{
    return flopsOfThread;
}

} // namespace headroom::sim
