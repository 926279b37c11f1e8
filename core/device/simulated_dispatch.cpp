// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/device/meta_call.h"
#include "core/device/simulated_state.h"
#include "core/device/unsupported.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <vector>

namespace headroom::sim {
namespace {

using c10::DispatchKey;

/// Returns whether the op itself has a Meta kernel. hasComputedKernelForDispatchKey is true for every op, since
/// libtorch registers a throwing fallback at Meta.
bool hasMetaKernel(const c10::OperatorHandle& op)
{
    return op.hasKernelForDispatchKey(DispatchKey::Meta);
}

void metaKernel(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack)
{
    callMeta(op, stack);
}

/// Runs an op that has no kernel on this device.
void fallback(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack)
{
    if (hasMetaKernel(op))
        callMeta(op, stack);
    else
        callOnZeros(op, stack);
}

void refuseSymmetricMemory(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack)
{
    refuseSymmetric(op, stack);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, library)
{
    library.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

/// Returns whether CUDA, too, decomposes the op. Without libtorch_cuda this is not known. ldexp has a composite kernel
/// but calls CUDA's kernel past the dispatcher.
bool isCompositeOnCuda(const c10::OperatorHandle& op)
{
    return simulatedState().type == c10::DeviceType::CUDA && !op.hasKernelForDispatchKey(DispatchKey::CUDA)
        && !op.schema().name().starts_with("aten::ldexp")
        && (op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd)
            || op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutogradNonFunctional));
}

} // namespace

void registerMetaKernels()
{
    // With the fallback alone, an op with a composite kernel would use that kernel: the parts allocate what the op's
    // CUDA kernel does not. If CUDA itself uses the composite kernel, a Meta kernel of Python is left out as another,
    // slow decomposition.
    auto& dispatcher = c10::Dispatcher::singleton();
    // Never taken back: autograd's threads may still call an op when main() has returned.
    static auto* const registrations = new std::vector<c10::RegistrationHandleRAII>;
    const auto add = [&](const c10::OperatorName& name, const c10::KernelFunction& kernel) {
        registrations->push_back(dispatcher.registerImpl(name, DispatchKey::PrivateUse1, kernel, std::nullopt, nullptr,
                                                         "headroom simulated device"));
    };
    const auto meta = c10::KernelFunction::makeFromBoxedFunction<&metaKernel>();
    const auto refusal = c10::KernelFunction::makeFromBoxedFunction<&refuseSymmetricMemory>();
    for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
        const auto op = dispatcher.findSchema(name);
        if (!op || op->hasKernelForDispatchKey(DispatchKey::PrivateUse1))
            continue;
        if (isSymmetric(*op))
            add(name, refusal);
        else if (hasMetaKernel(*op) && (!isCompositeOnCuda(*op) || hasOwnMetaKernel(*op)))
            add(name, meta);
    }
}

} // namespace headroom::sim
