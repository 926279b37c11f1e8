// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/device/known_values.h"

#include "core/device/boxed_values.h"
#include "core/device/even_choice.h"
#include "core/device/kernels/allocate.h"
#include "core/device/meta_call.h"
#include "core/device/op_traits.h"
#include "core/device/simulated_state.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <exception>
#include <memory>
#include <span>
#include <vector>

namespace headroom::sim {
namespace {

using at::Tensor;
using c10::DispatchKey;
using c10::DispatchKeySet;
using torch::jit::Stack;

Block* blockOf(const Tensor& tensor)
{
    return tensor.has_storage() ? SimulatedAllocator::blockOf(*tensor.storage().unsafeGetStorageImpl()) : nullptr;
}

Tensor onValues(const Tensor& tensor, const c10::Storage& values)
{
    Tensor result = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(values), DispatchKeySet(DispatchKey::CPU),
                                                             tensor.dtype());
    result.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides(), tensor.storage_offset());
    result._set_conj(tensor.is_conj());
    result._set_neg(tensor.is_neg());
    if (tensor.unsafeGetTensorImpl()->is_wrapped_number())
        result.unsafeGetTensorImpl()->set_wrapped_number(true);
    return result;
}

bool isSmall(const Tensor& tensor)
{
    const Block* block = blockOf(tensor);
    return block ? block->requested <= knownValuesLimit(tensor.scalar_type()) : tensor.numel() == 0;
}

void forget(const Tensor& tensor)
{
    if (Block* block = isSimulated(tensor.device()) ? blockOf(tensor) : nullptr)
        block->values = {};
}

/// What all known values may take of main memory together: a program may hold any number of small tensors.
constexpr Bytes allKnownValuesLimit = 512 * MiB;

/// Where known values are: counted while they are there.
class KnownValuesAllocator final : public c10::Allocator
{
public:
    c10::DataPtr allocate(std::size_t bytes) override
    {
        auto held = std::make_unique<Held>(*this, bytes);
        void* address = held->memory.get();
        return {address, held.release(), [](void* context) { delete static_cast<Held*>(context); }, c10::kCPU};
    }
    c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
    void copy_data(void* to, const void* from, std::size_t bytes) const override { std::memcpy(to, from, bytes); }

    bool hasRoomFor(Bytes bytes) const { return bytes_ + bytes <= allKnownValuesLimit; }

    /// Whether values follow from an invented choice.
    static bool areInvented(const c10::Storage& values) { return held(values)->invented; }
    static void setInvented(const c10::Storage& values, bool invented) { held(values)->invented = invented; }

private:
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
        bool invented = false;
        c10::DataPtr memory;
    };

    static Held* held(const c10::Storage& values) { return static_cast<Held*>(values.data_ptr().get_context()); }

    std::atomic<Bytes> bytes_{0};
};

/// Never destroyed: tensors of static storage duration are freed after main().
KnownValuesAllocator& knownValuesAllocator()
{
    static auto* const allocator = new KnownValuesAllocator;
    return *allocator;
}

/// One call of an op whose inputs may be known.
class KnownCall
{
public:
    KnownCall(const c10::OperatorHandle& op, Stack* stack)
        : op_(op)
        , traits_(traitsOf(op))
        , stack_(stack)
    {
    }

    void run()
    {
        if (inside || traits_.composite || traits_.keepsValues)
            return runOnDevice();
        if (traits_.filled != OpTraits::Filled::no)
            return runAndFill();
        const auto onStack = std::span<const c10::IValue>(*stack_).last(op_.schema().arguments().size());
        const bool known = traits_.computable && inputsKnown(onStack);
        if (!known)
            forgetWritten(onStack);
        if (known || traits_.asks != OpTraits::Asks::nothing || traits_.chosen >= 0)
            arguments_.assign(onStack.begin(), onStack.end());
        if (!known) {
            runOnDevice();
            answerWhetherFinite();
            return chooseEvenly();
        }
        if (traits_.returnsNumbers || traits_.sizedByValues || writesOnlyCpu())
            return runOnCpuInstead();
        runOnBoth();
    }

private:
    /// The kernel of an op that runs on both calls other ops: what they would write to known values, the op itself
    /// does.
    class Inside
    {
    public:
        Inside() { inside = true; }
        ~Inside() { inside = false; }
        Inside(const Inside&) = delete;
        Inside& operator=(const Inside&) = delete;
    };
    static thread_local bool inside;

    bool is(std::uint64_t arguments, std::size_t position) const
    {
        return position < 64 && (arguments >> position & 1) != 0;
    }

    bool isKnown(const Tensor& tensor) const
    {
        // One number may be expanded to any size, as that by which a sum's backward begins: the CPU would read it as
        // often.
        if (tensor.layout() != at::kStrided
            || static_cast<Bytes>(tensor.nbytes()) > knownValuesLimit(tensor.scalar_type()))
            return false;
        if (isSimulated(tensor.device()))
            return tensor.numel() == 0 || (blockOf(tensor) && blockOf(tensor)->values);
        return tensor.device().is_cpu();
    }

    bool inputsKnown(std::span<const c10::IValue> arguments) const
    {
        for (std::size_t i = 0; i < arguments.size(); ++i) {
            const bool old = is(traits_.overwritten, i);
            if (!allTensors(arguments[i], [&](const Tensor& tensor) {
                    return old ? !isSimulated(tensor.device()) || isSmall(tensor) : isKnown(tensor);
                }))
                return false;
        }
        return true;
    }

    /// A copy to the CPU: what the program reads there.
    bool writesOnlyCpu() const
    {
        if (traits_.written == 0)
            return false;
        for (std::size_t i = 0; i < arguments_.size(); ++i) {
            if (is(traits_.written, i)
                && !allTensors(arguments_[i], [](const Tensor& tensor) { return tensor.device().is_cpu(); }))
                return false;
        }
        return true;
    }

    void forgetWritten(std::span<const c10::IValue> arguments) const
    {
        if (traits_.written == 0)
            return;
        for (std::size_t i = 0; i < arguments.size(); ++i) {
            // Gradients have no values; they count as finite, so that a loss scale grows as it does when training goes
            // well.
            const bool foundInfinity = traits_.checksGradients && i == 1;
            if (is(traits_.written, i) && !foundInfinity)
                forEachTensor(arguments[i], forget);
        }
    }

    /// Unknown numbers count as finite: a script that gives up at a loss that is not goes on as when training goes
    /// well.
    void answerWhetherFinite() const
    {
        if (traits_.asks == OpTraits::Asks::nothing || traits_.written != 0)
            return;
        const bool itself = comparesWithItself();
        const Tensor& answer = stack_->back().toTensor();
        if ((traits_.asks != OpTraits::Asks::whetherNan && !itself && !comparesWithInfinity()) || !isSmall(answer))
            return;
        const bool yes
            = itself ? traits_.asks == OpTraits::Asks::whetherEqual : traits_.asks == OpTraits::Asks::whetherDifferent;
        ++simulatedState().inventedValues;
        const c10::impl::ExcludeDispatchKeyGuard guard(keysAboveBackend());
        remember(answer, at::full(answer.sizes(), yes, at::TensorOptions().dtype(at::kBool).device(at::kCPU)));
    }

    /// What a network chooses from its own numbers, as a router of tokens does.
    void chooseEvenly()
    {
        if (traits_.chosen < 0)
            return;
        const std::size_t first = stack_->size() - op_.schema().returns().size();
        const Tensor& chosen = (*stack_)[first + static_cast<std::size_t>(traits_.chosen)].toTensor();
        if (!isSimulated(chosen.device()) || !isSmall(chosen))
            return;
        invented_ = true;
        const c10::impl::ExcludeDispatchKeyGuard guard(keysAboveBackend());
        remember(chosen, evenChoice(op_, arguments_, chosen));
    }

    bool comparesWithItself() const
    {
        if (arguments_.size() < 2 || !arguments_[1].isTensor())
            return false;
        const Tensor& one = arguments_[0].toTensor();
        const Tensor& other = arguments_[1].toTensor();
        return one.is_same(other)
            || (one.is_alias_of(other) && one.sizes() == other.sizes() && one.strides() == other.strides()
                && one.storage_offset() == other.storage_offset() && one.dtype() == other.dtype());
    }

    bool comparesWithInfinity() const
    {
        return arguments_.size() > 1 && arguments_[1].isScalar() && arguments_[1].toScalar().isFloatingPoint()
            && std::isinf(arguments_[1].toScalar().toDouble());
    }

    void runOnDevice() const { op_.redispatchBoxed(DispatchKeySet(DispatchKey::PrivateUse1), stack_); }

    Stack runOnCpu()
    {
        Stack stack = arguments_;
        for (std::size_t i = 0; i < stack.size(); ++i) {
            mapTensors(stack[i], [&](const Tensor& tensor) {
                invented_ |= !is(traits_.overwritten, i) && sim::areInvented(tensor);
                return cpuTwin(tensor);
            });
            if (stack[i].isDevice())
                stack[i] = c10::Device(c10::kCPU);
        }
        const c10::impl::ExcludeDispatchKeyGuard guard(keysAboveBackend());
        Stack results = stack;
        op_.redispatchBoxed(DispatchKeySet(DispatchKey::CPU), &results);
        for (std::size_t i = 0; i < stack.size(); ++i) {
            if (is(traits_.written, i))
                remember(arguments_[i], stack[i]);
        }
        return results;
    }

    Tensor cpuTwin(const Tensor& tensor) const
    {
        if (!isSimulated(tensor.device()))
            return tensor;
        const Block* block = blockOf(tensor);
        if (block && block->values)
            return onValues(tensor, block->values);
        const c10::impl::ExcludeDispatchKeyGuard guard(keysAboveBackend());
        return at::zeros(tensor.sizes(), at::TensorOptions().dtype(tensor.dtype()).device(at::kCPU));
    }

    /// The results of the op become the values of the same tensors on the device.
    void remember(const c10::IValue& onDevice, const c10::IValue& onCpu) const
    {
        std::vector<Tensor> values;
        forEachTensor(onCpu, [&](const Tensor& tensor) { values.push_back(tensor); });
        std::size_t position = 0;
        forEachTensor(onDevice, [&](const Tensor& tensor) {
            if (position < values.size())
                remember(tensor, values[position]);
            ++position;
        });
    }

    void remember(const Tensor& tensor, const Tensor& values) const
    {
        Block* block = isSimulated(tensor.device()) ? blockOf(tensor) : nullptr;
        if (!block || !isSmall(tensor) || !values.device().is_cpu())
            return;
        if (tensor.sizes() != values.sizes() || tensor.dtype() != values.dtype())
            return forget(tensor);
        const Tensor kept = roomForValues(tensor, *block);
        if (!kept.defined())
            return;
        const bool partly = static_cast<Bytes>(tensor.nbytes()) < static_cast<Bytes>(tensor.storage().nbytes());
        KnownValuesAllocator::setInvented(block->values,
                                          invented_ || (partly && KnownValuesAllocator::areInvented(block->values)));
        if (!kept.is_alias_of(values))
            kept.copy_(values);
    }

    /// Where the values of a small tensor are, or are going to be; undefined when they cannot be kept.
    static Tensor roomForValues(const Tensor& tensor, Block& block)
    {
        if (!block.values) {
            // The rest of the storage would be unknown.
            if (static_cast<Bytes>(tensor.nbytes()) < static_cast<Bytes>(tensor.storage().nbytes())
                || !knownValuesAllocator().hasRoomFor(block.requested))
                return {};
            block.values = c10::Storage(c10::Storage::use_byte_size_t(), static_cast<std::size_t>(block.requested),
                                        &knownValuesAllocator(), /*resizable=*/true);
        }
        return onValues(tensor, block.values);
    }

    /// zeros_like, empty and their kin: the same number everywhere, whatever is in a tensor that the result is like.
    void runAndFill()
    {
        const at::Scalar number = traits_.filled == OpTraits::Filled::asSaid
            ? (*stack_)[stack_->size() - op_.schema().arguments().size() + 1].toScalar()
            : at::Scalar(traits_.filled == OpTraits::Filled::ones ? 1 : 0);
        {
            const Inside guard;
            runOnDevice();
        }
        const Tensor& result = stack_->back().toTensor();
        Block* block = isSimulated(result.device()) ? blockOf(result) : nullptr;
        if (!block || !isSmall(result))
            return;
        const c10::impl::ExcludeDispatchKeyGuard guard(keysAboveBackend());
        if (const Tensor kept = roomForValues(result, *block); kept.defined())
            kept.fill_(number);
    }

    bool resultsAreKnown() const
    {
        return allResults([](const Tensor& tensor) {
            const Block* block = blockOf(tensor);
            return !block || block->values;
        });
    }

    template <class Predicate>
    bool allResults(Predicate&& holds) const
    {
        for (std::size_t i = stack_->size() - op_.schema().returns().size(); i < stack_->size(); ++i) {
            if (!allTensors((*stack_)[i], holds))
                return false;
        }
        return true;
    }

    void runOnCpuInstead()
    {
        Stack results;
        try {
            results = runOnCpu();
        } catch (const std::exception&) {
            forgetWritten(arguments_); // the CPU's kernel takes other types than CUDA's
            return runOnDevice();
        }
        if (invented_)
            ++simulatedState().inventedValues; // the program reads it, or a size follows from it
        for (c10::IValue& result : results)
            mapTensors(result, [&](const Tensor& tensor) { return toDevice(tensor); });
        stack_->resize(stack_->size() - arguments_.size());
        stack_->insert(stack_->end(), results.begin(), results.end());
    }

    /// A result that was made on the CPU; one that is an argument stays it.
    Tensor toDevice(const Tensor& result) const
    {
        if (traits_.written != 0)
            return result;
        Tensor tensor = emptyStrided(result.sizes(), result.strides(), result.scalar_type());
        const c10::impl::ExcludeDispatchKeyGuard guard(keysAboveBackend());
        remember(tensor, result);
        return tensor;
    }

    void runOnBoth()
    {
        {
            const Inside guard;
            runOnDevice();
        }
        const bool small
            = allResults([](const Tensor& tensor) { return isSimulated(tensor.device()) && isSmall(tensor); });
        if (!small)
            return forgetWritten(arguments_);
        if (traits_.written == 0 && resultsAreKnown())
            return; // views
        try {
            const Stack results = runOnCpu();
            const c10::impl::ExcludeDispatchKeyGuard guard(keysAboveBackend());
            const std::size_t first = stack_->size() - results.size();
            for (std::size_t i = 0; i < results.size(); ++i)
                remember((*stack_)[first + i], results[i]);
        } catch (const std::exception&) {
            forgetWritten(arguments_);
        }
    }

    const c10::OperatorHandle& op_;
    const OpTraits& traits_;
    Stack* stack_;
    Stack arguments_; ///< where they are needed after the op ran on the device
    bool invented_ = false; ///< the values that it reads, or its own choice
};

thread_local bool KnownCall::inside = false;

} // namespace

Tensor knownValues(const Tensor& tensor)
{
    const Block* block = isSimulated(tensor.device()) ? blockOf(tensor) : nullptr;
    return block && block->values ? onValues(tensor, block->values) : Tensor();
}

bool areInvented(const Tensor& tensor)
{
    const Block* block = isSimulated(tensor.device()) ? blockOf(tensor) : nullptr;
    return block && block->values && KnownValuesAllocator::areInvented(block->values);
}

void callWithKnownValues(const c10::OperatorHandle& op, Stack* stack)
{
    KnownCall(op, stack).run();
}

} // namespace headroom::sim
