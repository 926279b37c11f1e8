// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/device/meta_call.h"

#include "core/device/allocate.h"
#include "core/device/boxed_values.h"
#include "core/device/simulated_device.h"
#include "core/device/simulated_state.h"
#include "core/device/unsupported.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/Exception.h>

#include <cstring>
#include <string_view>
#include <tuple>
#include <typeinfo>
#include <unordered_map>
#include <utility>
#include <vector>

namespace headroom::sim {
namespace {

using at::Tensor;
using c10::DispatchKey;
using c10::DispatchKeySet;

c10::StorageImpl* storageOf(const Tensor& tensor)
{
    if (!tensor.has_storage())
        std::ignore = tensor.const_data_ptr(); // throws: the CUDA graph that made the tensor has run again
    return tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
}

/// An op that reads more bytes than this needs its own kernel: a simulation must not swap.
constexpr Bytes lastResortLimit = 256 * MiB;

constexpr const char* advice = "Record this model with smaller sizes, or measure the model on a GPU.";

void copyBits(const Tensor& from, const Tensor& to)
{
    if (from.is_conj())
        to._set_conj(true);
    if (from.is_neg())
        to._set_neg(true);
}

/// Returns a view of `base` with the layout of `like`. The view has the dispatch keys of the base, as PyTorch's views
/// have: a view of a normal tensor stays normal in torch.inference_mode.
Tensor viewOf(const Tensor& base, const Tensor& like)
{
    const auto keys = base.key_set() - DispatchKeySet({DispatchKey::Conjugate, DispatchKey::Negative});
    Tensor view = at::detail::make_tensor<c10::TensorImpl>(c10::TensorImpl::VIEW, c10::Storage(base.storage()), keys,
                                                           like.dtype());
    view.unsafeGetTensorImpl()->set_sizes_and_strides(like.sizes(), like.strides(), like.storage_offset());
    view._set_conj(like.is_conj());
    view._set_neg(like.is_neg());
    return view;
}

/// Stand-ins for the tensors of a call, on a device of libtorch. The stand-ins share storages as the originals do. A
/// call has few tensors, so linear search is the fastest.
class StandIns
{
public:
    StandIns(const c10::OperatorHandle& op, DispatchKey key, c10::DeviceType type)
        : op_(op)
        , key_(key)
        , type_(type)
    {
    }
    virtual ~StandIns() = default;
    StandIns(const StandIns&) = delete;
    StandIns& operator=(const StandIns&) = delete;

    void replaceArguments(torch::jit::Stack& stack)
    {
        for (c10::IValue& value : argumentsOf(op_, stack)) {
            mapTensors(value, [&](const Tensor& tensor) { return toStandIn(tensor); });
            if (value.isDevice() && isSimulated(value.toDevice()))
                value = c10::Device(type_);
            else if (value.isGenerator())
                value = c10::IValue();
        }
    }

    /// Call this after the op. Puts tensors of the simulated device in place of the results, and repeats on the
    /// arguments the changes of the stand-ins: resize_, out=, set_, squeeze_.
    void replaceResults(torch::jit::Stack& stack)
    {
        for (const Pair& pair : pairs_)
            update(pair);
        for (c10::IValue& value : resultsOf(op_, stack))
            mapTensors(value, [&](const Tensor& tensor) { return toDevice(tensor); });
    }

protected:
    struct Pair
    {
        Tensor device;
        Tensor standIn;
    };

    /// Creates a storage with the size of `device` for stand-ins.
    virtual c10::Storage newStorage(const c10::StorageImpl& device) = 0;
    /// Creates the tensor on the simulated device for a result with its own memory.
    virtual Tensor newTensor(const Tensor& result) = 0;
    /// Returns the bytes that the storage of an argument needs after the op; 0: no more than before.
    virtual std::size_t neededBytes(const Pair& pair) const = 0;

    const c10::OperatorHandle& op_;
    std::vector<Pair> pairs_;

private:
    Tensor toStandIn(const Tensor& tensor)
    {
        if (!isSimulated(tensor.device()) || tensor.layout() != at::kStrided)
            return tensor;
        for (const Pair& pair : pairs_) {
            if (pair.device.is_same(tensor))
                return pair.standIn;
        }
        Tensor standIn = at::detail::make_tensor<c10::TensorImpl>(storageFor(storageOf(tensor)), DispatchKeySet(key_),
                                                                  tensor.dtype());
        c10::TensorImpl* impl = standIn.unsafeGetTensorImpl();
        impl->set_sizes_and_strides(tensor.sizes(), tensor.strides(), tensor.storage_offset());
        if (tensor.unsafeGetTensorImpl()->is_wrapped_number())
            impl->set_wrapped_number(true);
        copyBits(tensor, standIn);
        pairs_.push_back({tensor, standIn});
        return standIn;
    }

    Tensor toDevice(const Tensor& result)
    {
        for (const Pair& pair : pairs_) {
            if (pair.standIn.is_same(result))
                return pair.device;
        }
        if (result.device().type() != type_)
            return result;
        refuseOthersThanDense(op_, result);
        for (const Pair& pair : pairs_) {
            if (pair.standIn.storage().is_alias_of(result.storage()))
                return viewOf(pair.device, result);
        }
        return newTensor(result);
    }

    c10::Storage storageFor(c10::StorageImpl* device)
    {
        for (const auto& [original, storage] : storages_) {
            if (original == device)
                return storage;
        }
        return storages_.emplace_back(device, newStorage(*device)).second;
    }

    void update(const Pair& pair) const
    {
        const Tensor& standIn = pair.standIn;
        if (const std::size_t needed = neededBytes(pair); needed > storageOf(pair.device)->nbytes())
            simulatedState().allocator.resize(*storageOf(pair.device), static_cast<Bytes>(needed));
        if (pair.device.sizes() != standIn.sizes() || pair.device.strides() != standIn.strides()
            || pair.device.storage_offset() != standIn.storage_offset())
            pair.device.unsafeGetTensorImpl()->set_sizes_and_strides(standIn.sizes(), standIn.strides(),
                                                                     standIn.storage_offset());
    }

    DispatchKey key_;
    c10::DeviceType type_;
    std::vector<std::pair<c10::StorageImpl*, c10::Storage>> storages_; ///< original and stand-in
};

/// Meta tensors. A result gets a storage as large as that of the meta tensor.
class MetaStandIns final : public StandIns
{
public:
    explicit MetaStandIns(const c10::OperatorHandle& op)
        : StandIns(op, DispatchKey::Meta, c10::kMeta)
    {
    }

private:
    c10::Storage newStorage(const c10::StorageImpl& device) override
    {
        return c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), device.nbytes(),
                                                     c10::DataPtr(nullptr, c10::Device(c10::kMeta)),
                                                     c10::GetAllocator(c10::kMeta), /*resizable=*/true);
    }

    /// Adds the tensor to the pairs, since further results may be views of the tensor.
    Tensor newTensor(const Tensor& result) override
    {
        SimulatedAllocator& allocator = simulatedState().allocator;
        const std::size_t bytes = result.storage().nbytes();
        c10::Storage storage(c10::make_intrusive<c10::StorageImpl>(
            c10::StorageImpl::use_byte_size_t(), bytes, allocator.allocate(bytes), &allocator, /*resizable=*/true));
        Tensor device = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), simulatedKeys(), result.dtype());
        device.unsafeGetTensorImpl()->set_sizes_and_strides(result.sizes(), result.strides(), result.storage_offset());
        copyBits(result, device);
        pairs_.push_back({device, result});
        return device;
    }

    std::size_t neededBytes(const Pair& pair) const override { return pair.standIn.storage().nbytes(); }
};

/// CPU tensors of zeros.
class ZeroStandIns final : public StandIns
{
public:
    explicit ZeroStandIns(const c10::OperatorHandle& op)
        : StandIns(op, DispatchKey::CPU, c10::kCPU)
    {
    }

private:
    c10::Storage newStorage(const c10::StorageImpl& device) override
    {
        bytes_ += static_cast<Bytes>(device.nbytes());
        if (bytes_ > lastResortLimit)
            throw CannotSimulate("The simulated device has no kernel for " + c10::toString(op_.operator_name())
                                     + " and would have to run the op on " + formatBytes(bytes_)
                                     + " of zeros in main memory to learn shapes; at most "
                                     + formatBytes(lastResortLimit) + " are allowed",
                                 advice);
        c10::Storage cpu(c10::Storage::use_byte_size_t(), device.nbytes(), c10::GetAllocator(c10::kCPU),
                         /*resizable=*/true);
        if (cpu.nbytes() > 0)
            std::memset(cpu.mutable_data(), 0, cpu.nbytes());
        return cpu;
    }

    Tensor newTensor(const Tensor& result) override
    {
        return emptyStrided(result.sizes(), result.strides(), result.scalar_type());
    }

    /// An out= argument may have been resized.
    std::size_t neededBytes(const Pair& pair) const override
    {
        const Tensor& standIn = pair.standIn;
        if (pair.device.sizes() == standIn.sizes() && pair.device.strides() == standIn.strides()
            && pair.device.storage_offset() == standIn.storage_offset())
            return 0;
        return at::detail::computeStorageNbytes(standIn.sizes(), standIn.strides(), standIn.element_size(),
                                                static_cast<std::size_t>(standIn.storage_offset()));
    }

    Bytes bytes_ = 0; ///< of all storages of this call
};

using MetaKernels = std::unordered_map<c10::OperatorHandle, c10::SafeKernelFunction>;

/// Returns libtorch's own Meta kernels; none in a program without Python. Never destroyed: autograd's threads may call
/// an op until the process ends.
MetaKernels& ownMetaKernels()
{
    static auto* const kernels = new MetaKernels;
    return *kernels;
}

void dispatchToMeta(const c10::OperatorHandle& op, torch::jit::Stack* stack)
{
    const c10::impl::ExcludeDispatchKeyGuard guard(keysAboveBackend());
    const auto own = ownMetaKernels().find(op);
    if (own == ownMetaKernels().end())
        op.redispatchBoxed(DispatchKeySet(DispatchKey::Meta), stack);
    else
        own->second.callBoxed(op, DispatchKeySet(DispatchKey::Meta), stack);
}

/// Runs the Meta kernel. An error about devices names the device that the program has.
void runMeta(const c10::OperatorHandle& op, torch::jit::Stack* stack)
{
    constexpr std::string_view metaName = "meta";
    try {
        dispatchToMeta(op, stack);
    } catch (const c10::Error& error) {
        std::string sentence = error.what_without_backtrace();
        if (typeid(error) != typeid(c10::Error) || sentence.find("device") == std::string::npos)
            throw;
        for (std::size_t at = sentence.find(metaName); at != std::string::npos; at = sentence.find(metaName, at))
            sentence.replace(at, metaName.size(), device().str());
        TORCH_CHECK(false, sentence);
    }
}

void countFallback(const c10::OperatorHandle& op)
{
    SimulatedState& state = simulatedState();
    const std::lock_guard lock(state.fallbackMutex);
    ++state.fallbacks[c10::toString(op.operator_name())];
    ++state.fallbackCount;
}

/// Replaces the op's own error. That error would mislead: zeros cannot be inverted, no CPU kernel exists.
void runOnZeros(const c10::OperatorHandle& op, torch::jit::Stack* stack)
{
    const c10::impl::ExcludeDispatchKeyGuard guard(keysAboveBackend());
    try {
        op.redispatchBoxed(DispatchKeySet(DispatchKey::CPU), stack);
    } catch (const c10::Error& error) {
        if (dynamic_cast<const CannotSimulate*>(&error))
            throw;
        const std::string reason = error.what_without_backtrace();
        throw CannotSimulate("The simulated device has no kernel for " + c10::toString(op.operator_name())
                                 + ", and a run on zeros on the CPU, to learn shapes, failed: "
                                 + reason.substr(0, reason.find_first_of("\n")),
                             advice);
    }
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
    MetaStandIns standIns(op);
    standIns.replaceArguments(*stack);
    runMeta(op, stack);
    standIns.replaceResults(*stack);
}

void callOnZeros(const c10::OperatorHandle& op, torch::jit::Stack* stack)
{
    ZeroStandIns standIns(op);
    standIns.replaceArguments(*stack);
    countFallback(op);
    runOnZeros(op, stack);
    standIns.replaceResults(*stack);
}

} // namespace headroom::sim
