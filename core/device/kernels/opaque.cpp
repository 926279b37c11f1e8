// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// A kernel that is not PyTorch's, launched past the dispatcher (Triton, extension modules). It is an op here so that it
// is one of the step: recorded under the name it is given, priced by what it reads and writes and by `flops`.
#include "core/device/opaque_flops.h"

#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include <cstdint>
#include <string_view>

namespace headroom::sim {
namespace {

thread_local double flopsOfThread = 0;

/// What it writes is forgotten by who calls it (known_values.cpp).
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

// A launch is nothing that autograd sees.
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
