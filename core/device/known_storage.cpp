// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/device/known_storage.h"

#include "core/device/meta_call.h"
#include "core/device/simulated_state.h"

#include <ATen/ops/full.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <atomic>
#include <cstring>
#include <memory>

namespace headroom::sim {
namespace {

using at::Tensor;
using c10::DispatchKey;
using c10::DispatchKeySet;

/// Limit of the main memory for all known values together: a program may hold any number of small tensors.
constexpr Bytes allKnownValuesLimit = 512 * MiB;

/// Allocates known values in main memory and counts the bytes.
class KnownValuesAllocator final : public c10::Allocator
{
public:
    /// The context of a storage with known values.
    struct Held
    {
        Held(KnownValuesAllocator& owner, std::size_t bytes)
            : counted(owner.bytes_)
            , size(static_cast<Bytes>(bytes))
            , memory(c10::GetDefaultCPUAllocator()->allocate(bytes))
        {
            counted += size;
        }
        ~Held() { counted -= size; }
        Held(const Held&) = delete;
        Held& operator=(const Held&) = delete;

        std::atomic<Bytes>& counted;
        Bytes size;
        Assumptions assumptions;
        Tensor unknown; ///< flat, a bool for each element of `elementSize` bytes; undefined: all are known
        std::int64_t elementSize = 0;
        bool oneNumber = false; ///< `memory` holds a single element for all
        c10::DataPtr memory;
    };

    c10::DataPtr allocate(std::size_t bytes) override
    {
        auto held = std::make_unique<Held>(*this, bytes);
        void* address = held->memory.get();
        return {address, held.release(), [](void* context) { delete static_cast<Held*>(context); }, c10::kCPU};
    }
    c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
    void copy_data(void* to, const void* from, std::size_t bytes) const override { std::memcpy(to, from, bytes); }

    bool hasRoomFor(Bytes bytes) const { return bytes_ + bytes <= allKnownValuesLimit; }

private:
    std::atomic<Bytes> bytes_{0};
};

using Held = KnownValuesAllocator::Held;

/// Never destroyed: tensors of static storage duration are freed after main().
KnownValuesAllocator& knownValuesAllocator()
{
    static auto* const allocator = new KnownValuesAllocator;
    return *allocator;
}

Held& held(const c10::Storage& values)
{
    return *static_cast<Held*>(values.data_ptr().get_context());
}

Block* blockOf(const Tensor& tensor)
{
    return tensor.has_storage() ? SimulatedAllocator::blockOf(*tensor.storage().unsafeGetStorageImpl()) : nullptr;
}

Block* blockWithValues(const Tensor& tensor)
{
    Block* block = isSimulated(tensor.device()) ? blockOf(tensor) : nullptr;
    return block && block->values ? block : nullptr;
}

bool isWholeStorage(const Tensor& tensor)
{
    return static_cast<Bytes>(tensor.nbytes()) >= static_cast<Bytes>(tensor.storage().nbytes());
}

/// Returns a CPU tensor of `type` on `storage` with the sizes, strides and offset of `tensor`.
Tensor onStorage(const Tensor& tensor, const c10::Storage& storage, caffe2::TypeMeta type)
{
    Tensor result
        = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(storage), DispatchKeySet(DispatchKey::CPU), type);
    result.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides(), tensor.storage_offset());
    return result;
}

Tensor onValues(const Tensor& tensor, const c10::Storage& values)
{
    Tensor result = onStorage(tensor, values, tensor.dtype());
    if (held(values).oneNumber)
        result.unsafeGetTensorImpl()->set_sizes_and_strides(
            tensor.sizes(), std::vector<std::int64_t>(static_cast<std::size_t>(tensor.dim()), 0), 0);
    result._set_conj(tensor.is_conj());
    result._set_neg(tensor.is_neg());
    if (tensor.unsafeGetTensorImpl()->is_wrapped_number())
        result.unsafeGetTensorImpl()->set_wrapped_number(true);
    return result;
}

Tensor flags(at::IntArrayRef sizes, bool value)
{
    return at::full(sizes, value, at::TensorOptions().dtype(at::kBool).device(at::kCPU));
}

/// Creates the flags of all elements of a storage.
void makeFlags(Held& held, const Tensor& tensor, bool unknown)
{
    held.elementSize = tensor.element_size();
    held.unknown = flags({held.size / held.elementSize}, unknown);
}

/// Returns the flags of the tensor's elements; undefined if the flags are for elements of another size.
Tensor flagsOf(const Tensor& tensor, const Held& held)
{
    return held.elementSize == tensor.element_size() ? onStorage(tensor, held.unknown.storage(), held.unknown.dtype())
                                                     : Tensor();
}

} // namespace

bool isSmall(const Tensor& tensor)
{
    const Block* block = blockOf(tensor);
    return block ? block->requested <= knownValuesLimit(tensor.scalar_type()) : tensor.numel() == 0;
}

Known knownPart(const Tensor& tensor)
{
    if (tensor.numel() == 0)
        return Known::all;
    const Block* block = blockOf(tensor);
    if (!block || !block->values)
        return Known::nothing;
    const Held& known = held(block->values);
    if (!known.unknown.defined())
        return Known::all;
    const c10::impl::ExcludeDispatchKeyGuard guard(keysAboveBackend());
    const Tensor unknown = flagsOf(tensor, known);
    if (!unknown.defined() || unknown.all().item<bool>())
        return Known::nothing;
    return unknown.any().item<bool>() ? Known::some : Known::all;
}

Known readablePart(const Tensor& tensor)
{
    // A single number may be expanded to any size, like the gradient of a sum: the CPU would read the number for each
    // element.
    if (tensor.layout() != at::kStrided || static_cast<Bytes>(tensor.nbytes()) > knownValuesLimit(tensor.scalar_type()))
        return Known::nothing;
    if (isSimulated(tensor.device()))
        return knownPart(tensor);
    return tensor.device().is_cpu() ? Known::all : Known::nothing;
}

Tensor valuesOf(const Tensor& tensor)
{
    const Block* block = blockWithValues(tensor);
    return block ? onValues(tensor, block->values) : Tensor();
}

Tensor unknownOf(const Tensor& tensor)
{
    const Block* block = blockWithValues(tensor);
    if (block && !held(block->values).unknown.defined())
        return {};
    const Tensor unknown = block ? flagsOf(tensor, held(block->values)) : Tensor();
    const c10::impl::ExcludeDispatchKeyGuard guard(keysAboveBackend());
    return unknown.defined() ? unknown : flags(tensor.sizes(), true);
}

Assumptions& Assumptions::operator|=(const Assumptions& other)
{
    invented |= other.invented;
    otherRanks |= other.otherRanks;
    finite |= other.finite;
    return *this;
}

Assumptions assumptionsOf(const Tensor& tensor)
{
    const Block* block = blockWithValues(tensor);
    return block ? held(block->values).assumptions : Assumptions();
}

void assumeOtherRanks(const Tensor& tensor)
{
    if (const Block* block = blockWithValues(tensor))
        held(block->values).assumptions.otherRanks |= !held(block->values).assumptions.finite;
}

void forget(const Tensor& tensor)
{
    Block* block = blockWithValues(tensor);
    if (!block)
        return;
    Held& known = held(block->values);
    if (known.oneNumber) {
        block->values = {};
        return;
    }
    const c10::impl::ExcludeDispatchKeyGuard guard(keysAboveBackend());
    if (!isWholeStorage(tensor) && !known.unknown.defined())
        makeFlags(known, tensor, false);
    const Tensor unknown = isWholeStorage(tensor) ? Tensor() : flagsOf(tensor, known);
    if (!unknown.defined()) {
        block->values = {};
        return;
    }
    unknown.fill_(true);
    onValues(tensor, block->values).zero_();
}

void keep(const Tensor& tensor, const Tensor& values, const Tensor& unknownOrNone, const Assumptions& assumptions)
{
    Block* block = isSimulated(tensor.device()) ? blockOf(tensor) : nullptr;
    if (!block || !isSmall(tensor) || !values.device().is_cpu())
        return;
    if (tensor.sizes() != values.sizes() || tensor.dtype() != values.dtype())
        return forget(tensor);
    const c10::impl::ExcludeDispatchKeyGuard guard(keysAboveBackend());
    const Tensor unknown = unknownOrNone.defined() && unknownOrNone.any().item<bool>() ? unknownOrNone : Tensor();
    if (unknown.defined() && unknown.all().item<bool>())
        return forget(tensor);
    const bool whole = isWholeStorage(tensor);
    if (!block->values) {
        if (!knownValuesAllocator().hasRoomFor(block->requested))
            return;
        block->values = c10::Storage(c10::Storage::use_byte_size_t(), static_cast<std::size_t>(block->requested),
                                     &knownValuesAllocator(), /*resizable=*/true);
        if (!whole) {
            std::memset(block->values.mutable_data(), 0, block->values.nbytes());
            makeFlags(held(block->values), tensor, true);
        }
    }
    Held& known = held(block->values);
    if (whole)
        known.assumptions = {};
    known.assumptions |= assumptions;
    if (whole && !unknown.defined())
        known.unknown.reset();
    else if (unknown.defined() && !known.unknown.defined())
        makeFlags(known, tensor, false);
    const Tensor kept = onValues(tensor, block->values);
    if (!kept.is_alias_of(values))
        kept.copy_(values);
    if (!known.unknown.defined())
        return;
    const Tensor ofElements = flagsOf(tensor, known);
    if (!ofElements.defined()) {
        block->values = {};
        return;
    }
    if (!unknown.defined()) {
        ofElements.fill_(false);
        return;
    }
    ofElements.copy_(unknown);
    kept.masked_fill_(unknown, 0);
}

void keepNumber(const Tensor& tensor, const at::Scalar& number, const Assumptions& assumptions)
{
    Block* block = isSimulated(tensor.device()) ? blockOf(tensor) : nullptr;
    if (!block || !isWholeStorage(tensor))
        return;
    constexpr Bytes widestElement = 16;
    const bool small = isSmall(tensor);
    const Bytes bytes = small ? block->requested : widestElement;
    if (!knownValuesAllocator().hasRoomFor(bytes))
        return;
    block->values = c10::Storage(c10::Storage::use_byte_size_t(), static_cast<std::size_t>(bytes),
                                 &knownValuesAllocator(), /*resizable=*/true);
    Held& known = held(block->values);
    known.oneNumber = !small;
    known.assumptions = assumptions;
    const c10::impl::ExcludeDispatchKeyGuard guard(keysAboveBackend());
    const Tensor values = onValues(tensor, block->values);
    (small ? values : values.as_strided({bytes / tensor.element_size()}, {1}, 0)).fill_(number);
}

bool holdsOneNumber(const Tensor& tensor)
{
    const Block* block = blockWithValues(tensor);
    return block && held(block->values).oneNumber;
}

c10::Storage knownContents(const c10::StorageImpl& storage)
{
    const Block* block = SimulatedAllocator::blockOf(storage);
    return block ? block->values : c10::Storage();
}

} // namespace headroom::sim
