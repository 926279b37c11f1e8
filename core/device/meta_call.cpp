// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/device/meta_call.h"

#include "core/device/boxed_values.h"
#include "core/device/simulated_state.h"
#include "core/device/unsupported.h"
#include "core/device/view_of.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <tuple>
#include <unordered_map>
#include <vector>

namespace headroom::sim {
namespace {

using at::Tensor;
using c10::DispatchKey;
using c10::DispatchKeySet;

c10::StorageImpl* storageOf(const Tensor& tensor)
{
    if (!tensor.has_storage())
        std::ignore = tensor.const_data_ptr(); // throws: a CUDA graph ran again since it made the tensor
    return tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
}

void copyBits(const Tensor& from, const Tensor& to)
{
    if (from.is_conj())
        to._set_conj(true);
    if (from.is_neg())
        to._set_neg(true);
}

/// The twins of one call. A call has few tensors, so linear search is the fastest.
class Twins
{
public:
    explicit Twins(const c10::OperatorHandle& op)
        : op_(op)
    {
    }

    Tensor toMeta(const Tensor& tensor)
    {
        if (!isSimulated(tensor.device()) || tensor.layout() != at::kStrided)
            return tensor;
        for (const Pair& pair : tensors_) {
            if (pair.device.is_same(tensor))
                return pair.meta;
        }
        Tensor meta = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(metaStorage(storageOf(tensor))),
                                                               DispatchKeySet(DispatchKey::Meta), tensor.dtype());
        c10::TensorImpl* impl = meta.unsafeGetTensorImpl();
        impl->set_sizes_and_strides(tensor.sizes(), tensor.strides(), tensor.storage_offset());
        if (tensor.unsafeGetTensorImpl()->is_wrapped_number())
            impl->set_wrapped_number(true);
        copyBits(tensor, meta);
        tensors_.push_back({tensor, meta});
        return meta;
    }

    Tensor toDevice(const Tensor& meta)
    {
        if (!meta.is_meta())
            return meta;
        refuseOthersThanDense(op_, meta);
        for (const Pair& pair : tensors_) {
            if (pair.meta.is_same(meta))
                return pair.device;
        }
        Tensor device = makeDevice(meta);
        tensors_.push_back({device, meta});
        return device;
    }

    /// Arguments may have changed: resize_, out=, set_, squeeze_.
    void updateArguments()
    {
        for (Pair& pair : tensors_)
            update(pair);
    }

private:
    struct Pair
    {
        Tensor device;
        Tensor meta;
    };
    struct Storages
    {
        c10::StorageImpl* device;
        c10::Storage meta;
    };

    c10::Storage metaStorage(c10::StorageImpl* device)
    {
        for (const Storages& pair : storages_) {
            if (pair.device == device)
                return pair.meta;
        }
        c10::Storage meta(c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), device->nbytes(),
                                                                c10::DataPtr(nullptr, c10::Device(c10::kMeta)),
                                                                c10::GetAllocator(c10::kMeta), /*resizable=*/true));
        storages_.push_back({device, meta});
        return meta;
    }

    Tensor makeDevice(const Tensor& meta)
    {
        for (const Pair& pair : tensors_) {
            if (pair.meta.storage().is_alias_of(meta.storage()))
                return viewOf(pair.device, meta);
        }
        Tensor device = at::detail::make_tensor<c10::TensorImpl>(newStorage(meta.storage().nbytes()), simulatedKeys(),
                                                                 meta.dtype());
        device.unsafeGetTensorImpl()->set_sizes_and_strides(meta.sizes(), meta.strides(), meta.storage_offset());
        copyBits(meta, device);
        return device;
    }

    static c10::Storage newStorage(std::size_t bytes)
    {
        SimulatedAllocator& allocator = simulatedState().allocator;
        return c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes,
                                                     allocator.allocate(bytes), &allocator, /*resizable=*/true);
    }

    static void update(Pair& pair)
    {
        c10::TensorImpl* device = pair.device.unsafeGetTensorImpl();
        const Tensor& meta = pair.meta;
        if (meta.storage().nbytes() > storageOf(pair.device)->nbytes())
            simulatedState().allocator.resize(*storageOf(pair.device), static_cast<Bytes>(meta.storage().nbytes()));
        if (pair.device.sizes() != meta.sizes() || pair.device.strides() != meta.strides()
            || pair.device.storage_offset() != meta.storage_offset())
            device->set_sizes_and_strides(meta.sizes(), meta.strides(), meta.storage_offset());
    }

    const c10::OperatorHandle& op_;
    std::vector<Storages> storages_;
    std::vector<Pair> tensors_;
};

using MetaKernels = std::unordered_map<c10::OperatorHandle, c10::SafeKernelFunction>;

/// libtorch's own; empty in a program without Python. Never taken down: autograd's threads may call an op until the
/// process ends.
MetaKernels& ownMetaKernels()
{
    static auto* const kernels = new MetaKernels;
    return *kernels;
}

void runMeta(const c10::OperatorHandle& op, torch::jit::Stack* stack)
{
    const c10::impl::ExcludeDispatchKeyGuard guard(keysAboveBackend());
    const auto own = ownMetaKernels().find(op);
    if (own == ownMetaKernels().end())
        op.redispatchBoxed(DispatchKeySet(DispatchKey::Meta), stack);
    else
        own->second.callBoxed(op, DispatchKeySet(DispatchKey::Meta), stack);
}

} // namespace

void keepOwnMetaKernels()
{
    auto& dispatcher = c10::Dispatcher::singleton();
    for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
        const auto op = dispatcher.findSchema(name);
        if (op && op->hasKernelForDispatchKey(DispatchKey::Meta))
            ownMetaKernels().emplace(*op, op->getComputedKernelForDispatchKey(DispatchKey::Meta));
    }
}

bool hasOwnMetaKernel(const c10::OperatorHandle& op)
{
    return ownMetaKernels().contains(op);
}

DispatchKeySet keysAboveBackend()
{
    return c10::autograd_dispatch_keyset_with_ADInplaceOrView | DispatchKeySet(DispatchKey::Fake);
}

void callMeta(const c10::OperatorHandle& op, torch::jit::Stack* stack)
{
    Twins twins(op);
    const std::size_t firstArgument = stack->size() - op.schema().arguments().size();
    for (std::size_t i = firstArgument; i < stack->size(); ++i) {
        c10::IValue& value = (*stack)[i];
        mapTensors(value, [&](const Tensor& tensor) { return twins.toMeta(tensor); });
        if (value.isDevice() && isSimulated(value.toDevice()))
            value = c10::Device(c10::kMeta);
        else if (value.isGenerator())
            value = c10::IValue();
    }
    runMeta(op, stack);
    twins.updateArguments();
    for (std::size_t i = stack->size() - op.schema().returns().size(); i < stack->size(); ++i)
        mapTensors((*stack)[i], [&](const Tensor& tensor) { return twins.toDevice(tensor); });
}

} // namespace headroom::sim
