// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// Errors for tensors that the simulated device does not support. The messages name the op; libtorch would print the
// dispatch table.

#include "core/device/unsupported.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

namespace headroom::sim {

void refuseSparse(const c10::OperatorHandle& op, torch::jit::Stack*)
{
    TORCH_CHECK_NOT_IMPLEMENTED(false,
                                "The simulated device has sparse tensors of the layout torch.sparse_coo only, and ",
                                op.operator_name(), " needs another. Measure this model on a GPU.");
}

/// For the device of model files.
void refuseAnySparse(const c10::OperatorHandle& op, torch::jit::Stack*)
{
    TORCH_CHECK_NOT_IMPLEMENTED(false, "The simulated device of model files has dense tensors only, and ",
                                op.operator_name(),
                                " needs a sparse tensor. Record the model from a Python script (python -m "
                                "torch_headroom.record), or measure the model on a GPU.");
}

void refuseQuantized(const c10::OperatorHandle& op, torch::jit::Stack*)
{
    TORCH_CHECK_NOT_IMPLEMENTED(false, "The simulated device has no quantized tensors, and ", op.operator_name(),
                                " needs a quantized tensor. Measure this model on a GPU.");
}

void refuseNested(const c10::OperatorHandle& op, torch::jit::Stack*)
{
    TORCH_CHECK_NOT_IMPLEMENTED(
        false, "The simulated device has no nested tensors of the strided layout, and ", op.operator_name(),
        " got such a tensor. Make nested tensors with layout=torch.jagged, or measure this model on a GPU.");
}

void refuseSymmetric(const c10::OperatorHandle& op, torch::jit::Stack*)
{
    TORCH_CHECK_NOT_IMPLEMENTED(false, op.operator_name(),
                                " maps the memory of other ranks' GPUs, and the simulation has no such GPUs: record "
                                "the step with NCCL's collectives (in torchtitan without async tensor parallelism)");
}

/// For ops that PyTorch has for the CPU alone (native_functions.yaml): a card raises an error, too.
void refuseOnCard(const c10::OperatorHandle& op, torch::jit::Stack*)
{
    TORCH_CHECK_NOT_IMPLEMENTED(false, "Could not run '", op.operator_name(),
                                "' with arguments from the 'CUDA' backend: PyTorch has the operator for the CPU alone. "
                                "Give the operator tensors on the CPU, as by tensor.cpu().");
}

bool isSymmetric(const c10::OperatorHandle& op)
{
    return op.operator_name().name.starts_with("symm_mem::");
}

void refuseOthersThanDense(const c10::OperatorHandle& op, const at::Tensor& tensor)
{
    const c10::DispatchKeySet keys = tensor.key_set();
    if (keys.has(c10::DispatchKey::Sparse) || keys.has(c10::DispatchKey::SparseCsr))
        refuseSparse(op, nullptr);
    if (keys.has(c10::DispatchKey::Quantized))
        refuseQuantized(op, nullptr);
    if (keys.has(c10::DispatchKey::NestedTensor))
        refuseNested(op, nullptr);
}

namespace {

TORCH_LIBRARY_IMPL(_, SparsePrivateUse1, library)
{
    library.fallback(torch::CppFunction::makeFromBoxedFunction<&refuseAnySparse>());
}

TORCH_LIBRARY_IMPL(_, SparseCsrPrivateUse1, library)
{
    library.fallback(torch::CppFunction::makeFromBoxedFunction<&refuseAnySparse>());
}

TORCH_LIBRARY_IMPL(_, NestedTensorPrivateUse1, library)
{
    library.fallback(torch::CppFunction::makeFromBoxedFunction<&refuseNested>());
}

TORCH_LIBRARY_IMPL(_, QuantizedPrivateUse1, library)
{
    library.fallback(torch::CppFunction::makeFromBoxedFunction<&refuseQuantized>());
}

/// After torch 2.11, the Meta kernels of these ops return dense tensors.
TORCH_LIBRARY_IMPL(aten, PrivateUse1, library)
{
    for (const char* const name : {"quantize_per_tensor", "quantize_per_tensor.tensor_qparams",
                                   "quantize_per_tensor_dynamic", "quantize_per_channel"})
        library.impl(name, torch::CppFunction::makeFromBoxedFunction<&refuseQuantized>());
    for (const char* const name :
         {"_add_relu.Tensor", "_add_relu_.Tensor", "_add_relu.out", "_add_relu.Scalar", "_add_relu_.Scalar",
          "_histogramdd_bin_edges", "_histogramdd_from_bin_cts", "_histogramdd_from_bin_tensors",
          "histogram.bins_tensor", "histogram.bins_tensor_out", "histogram.bin_ct", "histogram.bin_ct_out",
          "narrow_copy.out", "slow_conv3d_forward", "slow_conv3d_forward.output"})
        library.impl(name, torch::CppFunction::makeFromBoxedFunction<&refuseOnCard>());
}

} // namespace
} // namespace headroom::sim
