// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/device/known_storage.h"

#include "core/device/boxed_values.h"
#include "core/device/meta_call.h"
#include "core/device/op_traits.h"
#include "core/device/simulated_state.h"

#include <ATen/ops/empty_strided.h>
#include <ATen/ops/full.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

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

/// Returns a CPU tensor of `type` on `storage` with the sizes and strides of `tensor`, and with the offset if the
/// storage begins `begin` elements into that of `tensor`.
Tensor onStorage(const Tensor& tensor, const c10::Storage& storage, caffe2::TypeMeta type, std::int64_t begin = 0)
{
    Tensor result
        = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(storage), DispatchKeySet(DispatchKey::CPU), type);
    result.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides(),
                                                        tensor.storage_offset() - begin);
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

Known partOf(const Tensor& unknown)
{
    if (!unknown.defined() || unknown.all().item<bool>())
        return Known::nothing;
    return unknown.any().item<bool>() ? Known::some : Known::all;
}

/// A copy in a storage of the host, or what is known of several copies together.
struct PlacedCopy : HostCopy
{
    std::size_t begin = 0; ///< bytes
    std::size_t end = 0;
    std::int64_t elementSize = 0; ///< of the flags, which lie in the order of the memory; 0: no flags for each element
};

struct HostStorage
{
    c10::weak_intrusive_ptr<c10::StorageImpl> storage; ///< keeps the address from being given to another storage
    std::map<std::size_t, PlacedCopy> copies; ///< by begin; without overlap
};

/// The copies in all storages of the host. Never destroyed: tensors may be read after main().
struct HostCopies
{
    std::atomic<bool> readsAreNoted{false};
    std::atomic<std::size_t> count{0}; ///< storages
    std::mutex mutex;
    std::unordered_map<const c10::StorageImpl*, HostStorage> byStorage;
    std::size_t nextCleaning = 1024;
};

HostCopies& hostCopies()
{
    static auto* const copies = new HostCopies;
    return *copies;
}

/// The bytes from a tensor's first to its last element.
struct Extent
{
    std::size_t begin;
    std::size_t end;
};

Extent extentOf(const Tensor& tensor)
{
    std::int64_t last = 0;
    for (std::int64_t i = 0; i < tensor.dim(); ++i)
        last += (tensor.size(i) - 1) * tensor.stride(i);
    const std::int64_t begin = tensor.storage_offset() * tensor.element_size();
    return {static_cast<std::size_t>(begin), static_cast<std::size_t>(begin + (last + 1) * tensor.element_size())};
}

bool mayHoldCopies(const Tensor& tensor)
{
    return hostCopies().count > 0 && tensor.device().is_cpu() && tensor.layout() == at::kStrided && tensor.has_storage()
        && tensor.numel() > 0;
}

/// Calls visit(iterator, storage) for each copy that overlaps with the bytes of `tensor`. The caller holds the mutex.
template <class Visit>
void forEachCopy(const Tensor& tensor, Visit&& visit)
{
    const auto found = hostCopies().byStorage.find(tensor.storage().unsafeGetStorageImpl());
    if (found == hostCopies().byStorage.end())
        return;
    std::map<std::size_t, PlacedCopy>& copies = found->second.copies;
    const Extent extent = extentOf(tensor);
    auto copy = copies.upper_bound(extent.begin);
    if (copy != copies.begin() && std::prev(copy)->second.end > extent.begin)
        --copy;
    while (copy != copies.end() && copy->first < extent.end) {
        const auto next = std::next(copy);
        visit(copies, copy);
        copy = next;
    }
}

/// Returns what the copies in a CPU tensor leave unknown; nullopt: the tensor holds no copies.
std::optional<PlacedCopy> copyIn(const Tensor& tensor)
{
    if (!mayHoldCopies(tensor))
        return std::nullopt;
    const Extent extent = extentOf(tensor);
    std::optional<PlacedCopy> result;
    const std::lock_guard lock(hostCopies().mutex);
    forEachCopy(tensor, [&](auto&, const auto& found) {
        const PlacedCopy& copy = found->second;
        if (copy.begin <= extent.begin && extent.end <= copy.end) {
            result = copy;
            return;
        }
        if (!result)
            result.emplace().part = Known::all;
        if (copy.part != Known::all)
            result->part = Known::nothing;
        result->assumptions |= copy.assumptions;
    });
    return result;
}

/// Returns the flags of the unknown elements of a CPU tensor inside of a copy; undefined if there are none for elements
/// of this size.
Tensor flagsOf(const Tensor& tensor, const PlacedCopy& copy)
{
    if (copy.part != Known::some || copy.elementSize != tensor.element_size())
        return {};
    return onStorage(tensor, copy.unknown.storage(), copy.unknown.dtype(),
                     static_cast<std::int64_t>(copy.begin) / copy.elementSize);
}

void countRead(const HostCopy& copy)
{
    if (copy.part != Known::all || copy.assumptions.placeholder)
        countPlaceholder(copy.read);
    else if (copy.assumptions.otherRanks)
        tellOfOtherRanks();
}

/// Forgets the copies in a CPU tensor. Counts the copies that are read, or replaced in part.
void dropCopies(const Tensor& tensor, bool replaced)
{
    if (!mayHoldCopies(tensor))
        return;
    const Extent extent = extentOf(tensor);
    const bool dense = tensor.is_non_overlapping_and_dense();
    std::vector<PlacedCopy> read;
    {
        HostCopies& all = hostCopies();
        const std::lock_guard lock(all.mutex);
        forEachCopy(tensor, [&](auto& copies, const auto& found) {
            const PlacedCopy& copy = found->second;
            if (!replaced || !dense || copy.begin < extent.begin || copy.end > extent.end)
                read.push_back(copy);
            copies.erase(found);
        });
        const auto storage = all.byStorage.find(tensor.storage().unsafeGetStorageImpl());
        if (storage != all.byStorage.end() && storage->second.copies.empty())
            all.byStorage.erase(storage);
        all.count = all.byStorage.size();
    }
    for (const PlacedCopy& copy : read) // without the mutex: the listener may wait for Python's lock
        countRead(copy);
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
    return partOf(flagsOf(tensor, known));
}

Known readablePart(const Tensor& tensor)
{
    // A single number may be expanded to any size, like the gradient of a sum: the CPU would read the number for each
    // element.
    if (tensor.layout() != at::kStrided || static_cast<Bytes>(tensor.nbytes()) > knownValuesLimit(tensor.scalar_type()))
        return Known::nothing;
    if (isSimulated(tensor.device()))
        return knownPart(tensor);
    if (!tensor.device().is_cpu())
        return Known::nothing;
    const std::optional<PlacedCopy> copy = copyIn(tensor);
    const c10::impl::ExcludeDispatchKeyGuard guard(keysAboveBackend());
    return !copy ? Known::all : copy->part == Known::some ? partOf(flagsOf(tensor, *copy)) : copy->part;
}

Tensor valuesOf(const Tensor& tensor)
{
    const Block* block = blockWithValues(tensor);
    return block ? onValues(tensor, block->values) : Tensor();
}

Tensor unknownOf(const Tensor& tensor)
{
    const bool onDevice = isSimulated(tensor.device());
    const Block* block = blockWithValues(tensor);
    const std::optional<PlacedCopy> copy = onDevice ? std::nullopt : copyIn(tensor);
    if (onDevice ? block && !held(block->values).unknown.defined() : !copy || copy->part == Known::all)
        return {};
    const Tensor unknown = block ? flagsOf(tensor, held(block->values)) : copy ? flagsOf(tensor, *copy) : Tensor();
    const c10::impl::ExcludeDispatchKeyGuard guard(keysAboveBackend());
    return unknown.defined() ? unknown : flags(tensor.sizes(), true);
}

Assumptions& Assumptions::operator|=(const Assumptions& other)
{
    placeholder |= other.placeholder;
    otherRanks |= other.otherRanks;
    finite |= other.finite;
    return *this;
}

Assumptions assumptionsOf(const Tensor& tensor)
{
    if (const std::optional<PlacedCopy> copy = copyIn(tensor))
        return copy->assumptions;
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
    dropCopies(tensor, /*replaced=*/true);
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

std::optional<at::Scalar> numberOf(const Tensor& tensor)
{
    if (!holdsOneNumber(tensor)) {
        const std::optional<PlacedCopy> copy = copyIn(tensor);
        return copy && copy->elementSize == tensor.element_size() ? copy->number : std::nullopt;
    }
    const std::vector<std::int64_t> ones(static_cast<std::size_t>(tensor.dim()), 1);
    const c10::impl::ExcludeDispatchKeyGuard guard(keysAboveBackend());
    return valuesOf(tensor).as_strided(ones, ones, 0).item();
}

void leaveOnHost(const Tensor& tensor, const HostCopy& copy)
{
    dropCopies(tensor, /*replaced=*/true);
    const bool certain = copy.part == Known::all && !copy.assumptions.placeholder && !copy.assumptions.otherRanks;
    if ((certain && !copy.number) || !tensor.device().is_cpu() || tensor.numel() == 0)
        return;
    HostCopies& all = hostCopies();
    if (!all.readsAreNoted || !tensor.has_storage() || !tensor.is_non_overlapping_and_dense())
        return countRead(copy);
    const Extent extent = extentOf(tensor);
    PlacedCopy placed{copy, extent.begin, extent.end, tensor.element_size()};
    if (copy.part == Known::some) {
        const c10::impl::ExcludeDispatchKeyGuard guard(keysAboveBackend());
        placed.unknown = at::empty_strided(tensor.sizes(), tensor.strides(), at::TensorOptions(at::kBool));
        placed.unknown.copy_(copy.unknown.expand(tensor.sizes()));
    }
    const std::lock_guard lock(all.mutex);
    if (all.byStorage.size() >= all.nextCleaning) {
        std::erase_if(all.byStorage, [](const auto& entry) { return entry.second.storage.expired(); });
        all.nextCleaning = 2 * all.byStorage.size() + 1024;
    }
    const auto [entry, isNew] = all.byStorage.try_emplace(tensor.storage().unsafeGetStorageImpl(),
                                                          HostStorage{tensor.storage().getWeakStorageImpl(), {}});
    entry->second.copies.insert_or_assign(extent.begin, std::move(placed));
    all.count = all.byStorage.size();
}

bool isUnreadCopy(const Tensor& tensor)
{
    const std::optional<PlacedCopy> copy = copyIn(tensor);
    return copy && copy->part == Known::nothing;
}

void readArguments(const c10::OperatorHandle& op, const torch::jit::Stack& stack)
{
    if (hostCopies().count == 0)
        return;
    const OpTraits& traits = traitsOf(op);
    const bool ofParts = traits.composite && !op.hasKernelForDispatchKey(DispatchKey::CPU);
    if (traits.readsNothing || traits.keepsValues || ofParts)
        return;
    const bool draws = traits.fills == OpTraits::Fills::normal || traits.fills == OpTraits::Fills::uniform;
    const std::uint64_t replaced = draws ? traits.written : traits.overwritten;
    const auto arguments = argumentsOf(op, stack);
    for (std::size_t i = 0; i < arguments.size(); ++i)
        forEachTensor(arguments[i],
                      [&](const Tensor& tensor) { dropCopies(tensor, i < 64 && (replaced >> i & 1) != 0); });
}

void readOnHost(const Tensor& tensor)
{
    dropCopies(tensor, /*replaced=*/false);
}

void noteHostReads()
{
    hostCopies().readsAreNoted = true;
}

c10::Storage knownContents(const c10::StorageImpl& storage)
{
    const Block* block = SimulatedAllocator::blockOf(storage);
    return block ? block->values : c10::Storage();
}

} // namespace headroom::sim
