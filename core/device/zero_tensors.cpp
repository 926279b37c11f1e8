// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/device/allocate.h"
#include "core/device/boxed_values.h"
#include "core/device/cannot_simulate.h"
#include "core/device/meta_call.h"
#include "core/device/simulated_state.h"
#include "core/device/unsupported.h"
#include "core/device/view_of.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/Exception.h>

#include <cstring>
#include <vector>

namespace headroom::sim {
namespace {

using at::Tensor;

/// An op that reads more than this has to get a kernel of its own: nobody wants a simulation that swaps.
constexpr Bytes lastResortLimit = 256 * MiB;

constexpr const char* advice = "Record this model with smaller sizes, or measure it on a GPU.";

std::string nameOf(const c10::OperatorHandle& op)
{
    return c10::toString(op.operator_name());
}

/// Zero-filled CPU stand-ins for the tensors of one call, storages shared as on the device.
class StandIns
{
public:
    explicit StandIns(const c10::OperatorHandle& op)
        : op_(op)
    {
    }

    Tensor toCpu(const Tensor& tensor)
    {
        if (!isSimulated(tensor.device()))
            return tensor;
        for (const Pair& pair : pairs_) {
            if (pair.device.is_same(tensor))
                return pair.cpu;
        }
        Tensor cpu = at::detail::make_tensor<c10::TensorImpl>(
            zeros(tensor.storage()), c10::DispatchKeySet(c10::DispatchKey::CPU), tensor.dtype());
        cpu.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides(), tensor.storage_offset());
        cpu._set_conj(tensor.is_conj());
        cpu._set_neg(tensor.is_neg());
        pairs_.push_back({tensor, cpu});
        return cpu;
    }

    Tensor toDevice(const Tensor& cpu)
    {
        for (const Pair& pair : pairs_) {
            if (pair.cpu.is_same(cpu))
                return pair.device;
        }
        if (!cpu.device().is_cpu())
            return cpu;
        refuseOthersThanDense(op_, cpu);
        for (const Pair& pair : pairs_) {
            if (pair.cpu.storage().is_alias_of(cpu.storage()))
                return viewOf(pair.device, cpu);
        }
        return emptyStrided(cpu.sizes(), cpu.strides(), cpu.scalar_type());
    }

    /// An out= argument may have been resized.
    void updateArguments()
    {
        for (const Pair& pair : pairs_) {
            const Tensor& cpu = pair.cpu;
            if (pair.device.sizes() == cpu.sizes() && pair.device.strides() == cpu.strides())
                continue;
            c10::StorageImpl* storage = pair.device.storage().unsafeGetStorageImpl();
            const std::size_t needed = at::detail::computeStorageNbytes(cpu.sizes(), cpu.strides(), cpu.element_size(),
                                                                        static_cast<std::size_t>(cpu.storage_offset()));
            if (needed > storage->nbytes())
                simulatedState().allocator.resize(*storage, static_cast<Bytes>(needed));
            pair.device.unsafeGetTensorImpl()->set_sizes_and_strides(cpu.sizes(), cpu.strides(), cpu.storage_offset());
        }
    }

private:
    struct Pair
    {
        Tensor device;
        Tensor cpu;
    };
    struct Storages
    {
        c10::StorageImpl* device;
        c10::Storage cpu;
    };

    c10::Storage zeros(const c10::Storage& device)
    {
        for (const Storages& pair : storages_) {
            if (pair.device == device.unsafeGetStorageImpl())
                return pair.cpu;
        }
        bytes_ += static_cast<Bytes>(device.nbytes());
        if (bytes_ > lastResortLimit)
            throw CannotSimulate("The simulated device has no kernel for " + nameOf(op_)
                                     + " and would have to run it on " + formatBytes(bytes_)
                                     + " of zeros in main memory to learn its shapes; at most "
                                     + formatBytes(lastResortLimit) + " are allowed",
                                 advice);
        c10::Storage cpu(c10::Storage::use_byte_size_t(), device.nbytes(), c10::GetAllocator(c10::kCPU),
                         /*resizable=*/true);
        if (cpu.nbytes() > 0)
            std::memset(cpu.mutable_data(), 0, cpu.nbytes());
        storages_.push_back({device.unsafeGetStorageImpl(), cpu});
        return cpu;
    }

    const c10::OperatorHandle& op_;
    Bytes bytes_ = 0;
    std::vector<Storages> storages_;
    std::vector<Pair> pairs_;
};

void countFallback(const c10::OperatorHandle& op)
{
    SimulatedState& state = simulatedState();
    const std::lock_guard lock(state.fallbackMutex);
    ++state.fallbacks[c10::toString(op.operator_name())];
    ++state.fallbackCount;
}

/// What an op says of zeros (a matrix of them cannot be inverted) or of its lack of a CPU kernel helps nobody.
void runOnCpu(const c10::OperatorHandle& op, torch::jit::Stack* stack)
{
    const c10::impl::ExcludeDispatchKeyGuard guard(keysAboveBackend());
    try {
        op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
    } catch (const c10::Error& error) {
        if (dynamic_cast<const CannotSimulate*>(&error))
            throw;
        const std::string reason = error.what_without_backtrace();
        throw CannotSimulate("The simulated device has no kernel for " + nameOf(op)
                                 + ", and to learn its shapes from zeros on the CPU failed: "
                                 + reason.substr(0, reason.find_first_of("\n")),
                             advice);
    }
}

} // namespace

void callOnZeros(const c10::OperatorHandle& op, torch::jit::Stack* stack)
{
    StandIns standIns(op);
    const std::size_t firstArgument = stack->size() - op.schema().arguments().size();
    for (std::size_t i = firstArgument; i < stack->size(); ++i) {
        c10::IValue& value = (*stack)[i];
        mapTensors(value, [&](const Tensor& tensor) { return standIns.toCpu(tensor); });
        if (value.isDevice() && isSimulated(value.toDevice()))
            value = c10::Device(c10::kCPU);
        else if (value.isGenerator())
            value = c10::IValue();
    }
    countFallback(op);
    runOnCpu(op, stack);
    standIns.updateArguments();
    for (std::size_t i = stack->size() - op.schema().returns().size(); i < stack->size(); ++i)
        mapTensors((*stack)[i], [&](const Tensor& tensor) { return standIns.toDevice(tensor); });
}

} // namespace headroom::sim
