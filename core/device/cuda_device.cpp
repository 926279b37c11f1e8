// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/device/cuda_device.h"

#include "core/device/argument_checks.h"
#include "core/device/attention_choice.h"
#include "core/device/boxed_values.h"
#include "core/device/card_limit.h"
#include "core/device/deferred_fill.h"
#include "core/device/known_storage.h"
#include "core/device/meta_call.h"
#include "core/device/op_traits.h"
#include "core/device/silence.h"
#include "core/device/simulated_guard.h"
#include "core/device/simulated_hooks.h"
#include "core/device/simulated_state.h"
#include "core/device/sparse_tensor.h"
#include "core/device/unsupported.h"

#include <ATen/native/transformers/attention.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <vector>

namespace headroom::sim {
namespace {

using c10::DispatchKey;
using c10::DispatchKeySet;
using torch::jit::Stack;

/// Whether a boxed argument is, or holds first, a tensor of the simulated device, or is that device.
bool isOnDevice(const c10::IValue& value)
{
    if (value.isDevice())
        return isSimulated(value.toDevice());
    bool found = false;
    allTensors(value, [&](const at::Tensor& tensor) {
        found = isSimulated(tensor.device());
        return false;
    });
    return found;
}

bool concernsDevice(const c10::OperatorHandle& op, const Stack& stack)
{
    return std::ranges::any_of(argumentsOf(op, stack), isOnDevice);
}

/// Throws if the call names a GPU that is not simulated, or has tensors that are not on the device as CUDA's kernel
/// needs the values. Returns whether the op has a sparse tensor.
bool checkArguments(const c10::OperatorHandle& op, const Stack& stack)
{
    bool sparse = false;
    bool onCpu = false;
    for (const c10::IValue& value : argumentsOf(op, stack)) {
        TORCH_CHECK(!value.isDevice() || !isSimulated(value.toDevice()) || value.toDevice().index() <= 0,
                    "CUDA error: invalid device ordinal. Headroom simulates one GPU, cuda:0, and ", op.operator_name(),
                    " asks for ", value.toDevice(), ".");
        forEachTensor(value, [&](const at::Tensor& tensor) {
            sparse |= tensor.is_sparse();
            if (!tensor.is_sparse())
                refuseOthersThanDense(op, tensor);
            onCpu |= tensor.device().is_cpu();
        });
    }
    if (sparse)
        return true;
    const OpTraits& traits = traitsOf(op);
    if (traits.takesGenerator)
        checkGenerators(op, stack);
    if (onCpu)
        checkDevices(op, stack, traits.devices);
    if (traits.types.check)
        traits.types.check(argumentsOf(op, stack), traits.types.kernel);
    if (at::globalContext().deterministicAlgorithms() && !traits.composite)
        checkDeterminism(op, stack);
    return false;
}

/// Returns whether a call makes a sparse tensor.
bool makesSparse(const c10::OperatorHandle& op, const Stack& stack)
{
    const auto values = argumentsOf(op, stack);
    for (std::size_t i = 0; i < values.size(); ++i) {
        if (!values[i].isInt() || op.schema().arguments()[i].name() != "layout")
            continue;
        const auto layout = static_cast<at::Layout>(values[i].toInt());
        if (layout != at::kStrided && layout != at::kJagged && layout != at::kSparse)
            refuseSparse(op, nullptr);
        return layout == at::kSparse;
    }
    return false;
}

/// Draws the deferred values of the CPU tensors that an op reads. A copy to the device reads only the values of small
/// tensors, since the device keeps no others.
void makeWhatCudaReads(const c10::OperatorHandle& op, const Stack& stack)
{
    const OpTraits& traits = traitsOf(op);
    if (traits.composite)
        return; // the ops of the decomposition come here
    if (!traits.copies)
        return makeArguments(op, stack);
    const auto arguments = argumentsOf(op, stack);
    for (std::size_t i = 0; i < arguments.size(); ++i) {
        forEachTensor(arguments[i], [&](const at::Tensor& tensor) {
            const bool destination = traits.written >> i & 1;
            if (destination || static_cast<Bytes>(tensor.nbytes()) <= knownValuesLimit(tensor.scalar_type()))
                makeValues(tensor);
        });
    }
}

/// Replaces every kernel for CUDA. Serves callers that exclude the interceptor's key (torch.tensor), and threads
/// without interception.
void cudaKernel(const c10::OperatorHandle& op, DispatchKeySet, Stack* stack)
{
    checkArguments(op, *stack);
    makeWhatCudaReads(op, *stack);
    callWithKnownValues(op, stack);
}

/// Replaces the autograd kernels of ops where the device makes a choice above autograd, such as the attention kernel.
void cudaAutogradKernel(const c10::OperatorHandle& op, DispatchKeySet, Stack* stack)
{
    op.redispatchBoxed(DispatchKeySet(DispatchKey::AutogradPrivateUse1), stack);
}

/// Replaces the autocast kernel of cuDNN's recurrent networks, the only autocast kernel in libtorch_cuda.
void cudaAutocastKernel(const c10::OperatorHandle& op, DispatchKeySet, Stack* stack)
{
    op.redispatchBoxed(DispatchKeySet(DispatchKey::AutocastPrivateUse1), stack);
}

/// Replaces the kernels for sparse tensors that do not only call dense ops.
void cudaSparseKernel(const c10::OperatorHandle& op, DispatchKeySet, Stack* stack)
{
    op.redispatchBoxed(DispatchKeySet(DispatchKey::SparsePrivateUse1), stack);
}

/// Returns whether an op only decomposes into others above autograd. A kernel below autograd would lose the gradients.
bool isOnlyComposite(const c10::OperatorHandle& op)
{
    return op.hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd)
        && !op.hasKernelForDispatchKey(DispatchKey::CUDA)
        && !op.hasKernelForDispatchKey(DispatchKey::AutogradPrivateUse1);
}

template <void (*refuse)(const c10::OperatorHandle&, Stack*)>
void refusal(const c10::OperatorHandle& op, DispatchKeySet, Stack* stack)
{
    refuse(op, stack);
}

struct Replacement
{
    DispatchKey key;
    c10::KernelFunction kernel;
};

std::vector<Replacement> replacements()
{
    return {{DispatchKey::SparseCsrCUDA, c10::KernelFunction::makeFromBoxedFunction<&refusal<refuseSparse>>()},
            {DispatchKey::QuantizedCUDA, c10::KernelFunction::makeFromBoxedFunction<&refusal<refuseQuantized>>()},
            {DispatchKey::NestedTensorCUDA, c10::KernelFunction::makeFromBoxedFunction<&refusal<refuseNested>>()}};
}

/// Replaces all kernels of libtorch_cuda, since the originals would read addresses without memory.
void replaceCudaKernels()
{
    const Silence silence;
    auto& dispatcher = c10::Dispatcher::singleton();
    static auto* const registrations = new std::vector<c10::RegistrationHandleRAII>; // never taken back
    const auto replace = [&](const c10::OperatorName& name, DispatchKey key, const c10::KernelFunction& kernel) {
        registrations->push_back(dispatcher.registerImpl(name, key, kernel, std::nullopt, nullptr, "headroom"));
    };
    const auto kernel = c10::KernelFunction::makeFromBoxedFunction<&cudaKernel>();
    const auto autogradKernel = c10::KernelFunction::makeFromBoxedFunction<&cudaAutogradKernel>();
    const auto sparseKernel = c10::KernelFunction::makeFromBoxedFunction<&cudaSparseKernel>();
    const std::vector<Replacement> refused = replacements();
    for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
        const auto op = dispatcher.findSchema(name);
        if (!op)
            continue;
        if (!isOnlyComposite(*op)
            && (op->hasKernelForDispatchKey(DispatchKey::CUDA)
                || op->hasKernelForDispatchKey(DispatchKey::PrivateUse1)))
            replace(name, DispatchKey::CUDA, kernel);
        if (op->hasKernelForDispatchKey(DispatchKey::AutogradPrivateUse1))
            replace(name, DispatchKey::AutogradCUDA, autogradKernel);
        if (op->hasKernelForDispatchKey(DispatchKey::SparsePrivateUse1))
            replace(name, DispatchKey::SparseCUDA, sparseKernel);
        for (const Replacement& replacement : refused) {
            if (op->hasKernelForDispatchKey(replacement.key))
                replace(name, replacement.key, replacement.kernel);
        }
    }
    replace({"aten::_cudnn_rnn", ""}, DispatchKey::AutocastCUDA,
            c10::KernelFunction::makeFromBoxedFunction<&cudaAutocastKernel>());
    registrations->push_back(dispatcher.registerFallback(DispatchKey::CUDA, kernel, "headroom"));
    for (const Replacement& replacement : refused)
        registrations->push_back(dispatcher.registerFallback(replacement.key, replacement.kernel, "headroom"));
}

} // namespace

void claimCuda()
{
    claimCudaHooks();
    keepOwnMetaKernels();
}

Status simulateCuda(const DeviceSpec& spec)
{
    if (!ownsCudaHooks())
        return badInput(
            "torch was imported before the GPU was simulated: import torch_headroom and call torch_headroom.simulate() "
            "in the first lines of the program, before anything that imports torch");
    SimulatedState& state = simulatedState();
    state.spec = spec;
    state.type = c10::DeviceType::CUDA;
    limitCard();
    c10::SetAllocator(c10::DeviceType::CUDA, &state.allocator, /*priority=*/1); // libtorch_cuda's has priority 0
    c10::impl::device_guard_impl_registry[static_cast<std::size_t>(c10::DeviceType::CUDA)].store(&simulatedGuard());
    at::native::_fused_sdp_choice_stub.set_cuda_dispatch_ptr(&fusedAttentionChoice);
    registerMetaKernels();
    registerCollectives();
    claimSparseStubs();
    replaceCudaKernels();
    return {};
}

void call(const c10::OperatorHandle& op, DispatchKeySet keys, Stack* stack)
{
    const SimulatedState& state = simulatedState();
    if (state.type != c10::DeviceType::CUDA) {
        if (state.keepsValues && concernsDevice(op, *stack))
            callWithKnownValues(op, stack);
        else
            op.redispatchBoxed(keys, stack);
        return;
    }
    if (concernsDevice(op, *stack)) {
        if (checkArguments(op, *stack) || makesSparse(op, *stack)) {
            op.redispatchBoxed(keys, stack); // the kernel calls ops on dense tensors
            return;
        }
        makeWhatCudaReads(op, *stack);
        callWithKnownValues(op, stack);
        return;
    }
    if (deferFill(op, stack))
        return;
    readArguments(op, *stack);
    makeArguments(op, *stack);
    op.redispatchBoxed(keys, stack);
}

} // namespace headroom::sim
