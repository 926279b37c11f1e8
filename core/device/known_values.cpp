// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/device/known_storage.h"

#include "core/device/allocate.h"
#include "core/device/boxed_values.h"
#include "core/device/meta_call.h"
#include "core/device/op_traits.h"
#include "core/device/partly_known.h"
#include "core/device/placeholder_values.h"
#include "core/device/simulated_hooks.h"
#include "core/device/simulated_state.h"

#include <ATen/ExpandUtils.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace headroom::sim {
namespace {

using at::Tensor;
using c10::DispatchKey;
using c10::DispatchKeySet;
using torch::jit::Stack;

/// A call of an op with inputs that may be known.
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
        const auto onStack = argumentsOf(op_, std::as_const(*stack_));
        if (traits_.ofOneNumber && readsOneNumber(onStack))
            return runOfOneNumber(onStack);
        if (traits_.copies && crossesDevices(onStack)) {
            if (const std::optional<at::Scalar> number = numberOf(sourceOf(onStack)))
                return copyNumber(onStack, *number);
        }
        known_ = traits_.computable ? inputsKnown(onStack) : Known::nothing;
        if (known_ != Known::nothing || traits_.asks != OpTraits::Asks::nothing || traits_.chosen >= 0)
            arguments_.assign(onStack.begin(), onStack.end());
        if (known_ == Known::some && asksWhetherFinite())
            known_ = Known::nothing;
        if (known_ == Known::nothing) {
            forgetWritten(onStack);
            runOnDevice();
            answerWhetherFinite();
            answerAll();
            return chooseEvenly();
        }
        if (traits_.returnsNumbers || traits_.sizedByValues || writesOnlyCpu())
            return runOnCpuInstead();
        runOnBoth();
    }

private:
    /// While an object lives, ops of this thread do not handle known values: the outer op and its kernel do.
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

    /// Returns whether a part of the result may follow from the other arguments if this argument is unknown.
    bool mayBeUnknown(std::size_t position, const Tensor& tensor) const
    {
        using Rule = Partly::Rule;
        const Partly& partly = traits_.partly;
        const bool byDecider = partly.rule == Rule::elementwise && partly.decider != Partly::Decider::none
            && at::isIntegralType(tensor.scalar_type(), /*includeBool=*/true);
        const bool byPlace = partly.rule == Rule::where || partly.rule == Rule::fill || partly.rule == Rule::moves;
        return (byDecider || byPlace) && !is(partly.places, position) && isSmall(tensor)
            && static_cast<Bytes>(tensor.nbytes()) <= knownValuesLimit(tensor.scalar_type());
    }

    Known inputsKnown(std::span<const c10::IValue> arguments) const
    {
        const Partly& partly = traits_.partly;
        bool all = true;
        bool any = false;
        for (std::size_t i = 0; i < arguments.size(); ++i) {
            const bool old = is(traits_.overwritten, i);
            const bool onlyChooses = is(partly.places, i) || (partly.rule == Partly::Rule::where && i == 0);
            const auto isEnough = [&](const Tensor& tensor) {
                if (old)
                    return !isSimulated(tensor.device()) || isSmall(tensor);
                const Known part = readablePart(tensor);
                all &= part == Known::all;
                any |= part != Known::nothing && !onlyChooses;
                if (part == Known::nothing)
                    return mayBeUnknown(i, tensor);
                return part == Known::all || (partly.rule != Partly::Rule::no && !is(partly.places, i));
            };
            if (!allTensors(arguments[i], isEnough))
                return Known::nothing;
        }
        return all ? Known::all : any ? Known::some : Known::nothing;
    }

    /// Returns whether the op is a copy to the CPU, where the program reads the values.
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
            // Gradients have no values and count as finite: a loss scale then grows as in training without overflow.
            const bool foundInfinity = traits_.checksGradients && i == 1;
            if (is(traits_.written, i) && !foundInfinity)
                forEachTensor(arguments[i], forget);
        }
    }

    bool asksWhetherFinite() const
    {
        if (traits_.asks == OpTraits::Asks::nothing || traits_.written != 0)
            return false;
        return traits_.asks == OpTraits::Asks::whetherNan || comparesWithItself() || comparesWithInfinity();
    }

    /// Returns whether each tensor holds a single number, with at least one large tensor among the arguments.
    static bool readsOneNumber(std::span<const c10::IValue> arguments)
    {
        bool any = false;
        const auto holdsOne = [&](const Tensor& tensor) {
            const bool large = holdsOneNumber(tensor);
            any |= large;
            return large || (tensor.numel() == 1 && readablePart(tensor) == Known::all);
        };
        return std::ranges::all_of(arguments, [&](const c10::IValue& value) { return allTensors(value, holdsOne); })
            && any;
    }

    /// Runs the op on the CPU with tensors of a single element, and keeps the result for all elements.
    void runOfOneNumber(std::span<const c10::IValue> arguments)
    {
        Stack numbers(arguments.begin(), arguments.end());
        for (c10::IValue& value : numbers) {
            mapTensors(value, [&](const Tensor& tensor) {
                assumptions_ |= assumptionsOf(tensor);
                const std::vector<std::int64_t> ones(static_cast<std::size_t>(tensor.dim()), 1);
                const c10::impl::ExcludeDispatchKeyGuard guard(keysAboveBackend());
                return cpuTwin(tensor).as_strided(ones, ones, 0);
            });
        }
        runInside();
        const c10::impl::ExcludeDispatchKeyGuard guard(keysAboveBackend());
        op_.redispatchBoxed(DispatchKeySet(DispatchKey::CPU), &numbers);
        keepNumber(stack_->back().toTensor(), numbers.back().toTensor().item(), assumptions_);
    }

    const Tensor& destinationOf(std::span<const c10::IValue> arguments) const
    {
        return arguments[is(traits_.written, 0) ? 0 : 1].toTensor();
    }

    const Tensor& sourceOf(std::span<const c10::IValue> arguments) const
    {
        return arguments[is(traits_.written, 0) ? 1 : 0].toTensor();
    }

    bool crossesDevices(std::span<const c10::IValue> arguments) const
    {
        const Tensor& destination = destinationOf(arguments);
        const Tensor& source = sourceOf(arguments);
        return isSimulated(destination.device()) != isSimulated(source.device())
            && at::is_expandable_to(source.sizes(), destination.sizes());
    }

    /// Copies a tensor of a single number to the host or from there.
    void copyNumber(std::span<const c10::IValue> arguments, const at::Scalar& number)
    {
        const Tensor destination = destinationOf(arguments);
        assumptions_ = assumptionsOf(sourceOf(arguments));
        if (isSimulated(destination.device())) {
            forgetWritten(arguments);
            runInside();
            return keepNumber(destination, number, assumptions_);
        }
        const c10::impl::ExcludeDispatchKeyGuard guard(keysAboveBackend());
        if (number.toComplexDouble() == 0.0)
            zeroHostMemory(destination);
        else
            destination.fill_(number);
        leaveOnHost(destination, {Known::all, {}, assumptions_, number, Placeholder::number});
        dropArguments(op_, stack_);
        stack_->emplace_back(destination);
    }

    /// Answers a test of unknown numbers as if the numbers were finite: a script that stops at an infinite loss then
    /// goes on.
    void answerWhetherFinite() const
    {
        if (!asksWhetherFinite())
            return;
        const Tensor& answer = stack_->back().toTensor();
        const bool yes = comparesWithItself() ? traits_.asks == OpTraits::Asks::whetherEqual
                                              : traits_.asks == OpTraits::Asks::whetherDifferent;
        countPlaceholder();
        keepNumber(answer, yes, {.finite = true});
    }

    /// Answers all() of unknown elements with true: programs use all() for assertions, for example on the corners of
    /// boxes.
    void answerAll()
    {
        if (!traits_.asksAll || !isSimulated(stack_->back().toTensor().device()))
            return;
        assumptions_.placeholder = true;
        const c10::impl::ExcludeDispatchKeyGuard guard(keysAboveBackend());
        remember(stack_->back(), at::ones({}, at::TensorOptions(at::kBool)));
    }

    /// Chooses in place of a network, such as a router of tokens, that chooses by unknown numbers.
    void chooseEvenly()
    {
        if (traits_.chosen < 0)
            return;
        const Tensor& chosen = resultsOf(op_, *stack_)[static_cast<std::size_t>(traits_.chosen)].toTensor();
        if (!isSimulated(chosen.device()) || !isSmall(chosen))
            return;
        assumptions_.placeholder = true;
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

    void runOnDevice() const
    {
        if (traits_.shapesOnly)
            callMeta(op_, stack_);
        else
            op_.redispatchBoxed(DispatchKeySet(DispatchKey::PrivateUse1), stack_);
    }

    /// Runs the op on the device as the inner op of this call.
    void runInside() const
    {
        const Inside guard;
        runOnDevice();
    }

    Stack onCpu() const
    {
        Stack stack = arguments_;
        for (c10::IValue& value : stack) {
            mapTensors(value, [&](const Tensor& tensor) { return cpuTwin(tensor); });
            if (value.isDevice())
                value = c10::Device(c10::kCPU);
        }
        return stack;
    }

    /// Returns the flags of the unknown elements of the result; undefined if all are known.
    Tensor unknownResult(const Stack& onCpu) const
    {
        if (known_ != Known::some)
            return {};
        Stack unknown = arguments_;
        for (c10::IValue& value : unknown) {
            mapTensors(value, [](const Tensor& tensor) {
                const Tensor flags = unknownOf(tensor);
                return flags.defined() ? flags : at::zeros(tensor.sizes(), at::TensorOptions(at::kBool));
            });
        }
        return unknownElements(op_, traits_.partly, onCpu, unknown, traits_.overwritten);
    }

    Stack runOnCpu()
    {
        for (std::size_t i = 0; i < arguments_.size(); ++i) {
            if (!is(traits_.overwritten, i))
                forEachTensor(arguments_[i], [&](const Tensor& tensor) { assumptions_ |= assumptionsOf(tensor); });
        }
        const c10::impl::ExcludeDispatchKeyGuard guard(keysAboveBackend());
        const Stack stack = onCpu();
        unknown_ = unknownResult(stack);
        Stack results = stack;
        if (traits_.wholeByCuda && at::isIntegralType(stack.front().toTensor().scalar_type(), /*includeBool=*/true))
            runInFloatingPoint(results);
        else
            op_.redispatchBoxed(DispatchKeySet(DispatchKey::CPU), &results);
        for (std::size_t i = 0; i < stack.size(); ++i) {
            if (is(traits_.written, i))
                remember(arguments_[i], stack[i]);
        }
        return results;
    }

    /// Runs an op that has only floating-point kernels on the CPU. The result has the type of the first argument.
    void runInFloatingPoint(Stack& stack) const
    {
        const at::ScalarType type = stack.front().toTensor().scalar_type();
        stack.front() = stack.front().toTensor().to(at::kDouble);
        op_.redispatchBoxed(DispatchKeySet(DispatchKey::CPU), &stack);
        stack.front() = stack.front().toTensor().to(type);
    }

    static Tensor cpuTwin(const Tensor& tensor)
    {
        if (!isSimulated(tensor.device()))
            return tensor;
        const Tensor values = valuesOf(tensor);
        return values.defined() ? values
                                : at::zeros(tensor.sizes(), at::TensorOptions().dtype(tensor.dtype()).device(at::kCPU));
    }

    /// Keeps the tensors in `onCpu` as the values of the tensors in `onDevice`.
    void remember(const c10::IValue& onDevice, const c10::IValue& onCpu) const
    {
        std::vector<Tensor> values;
        forEachTensor(onCpu, [&](const Tensor& tensor) { values.push_back(tensor); });
        std::size_t position = 0;
        forEachTensor(onDevice, [&](const Tensor& tensor) {
            if (position < values.size())
                keep(tensor, values[position], unknown_, assumptions_);
            ++position;
        });
    }

    /// Runs zeros_like, empty and similar ops: all elements are the same number, whatever a tensor among the arguments
    /// holds.
    void runAndFill()
    {
        const at::Scalar number = traits_.filled == OpTraits::Filled::asSaid
            ? argumentsOf(op_, *stack_)[1].toScalar()
            : at::Scalar(traits_.filled == OpTraits::Filled::ones ? 1 : 0);
        runInside();
        const Tensor& result = stack_->back().toTensor();
        if (isSimulated(result.device()) && isSmall(result))
            keepNumber(result, number);
    }

    bool resultsAreKnown() const
    {
        return allResults([](const Tensor& tensor) { return tensor.numel() == 0 || valuesOf(tensor).defined(); });
    }

    template <class Predicate>
    bool allResults(Predicate&& holds) const
    {
        return std::ranges::all_of(resultsOf(op_, *stack_),
                                   [&](const c10::IValue& result) { return allTensors(result, holds); });
    }

    /// Returns whether the program gets a truth value.
    bool saysTruth(const Stack& results) const
    {
        return results.size() == 1
            && (results.front().isBool()
                || (results.front().isTensor() && writesOnlyCpu()
                    && results.front().toTensor().scalar_type() == at::kBool));
    }

    void runOnCpuInstead()
    {
        Stack results;
        try {
            results = runOnCpu();
        } catch (const std::exception&) {
            forgetWritten(arguments_); // the CPU's kernel may not support a type that CUDA's does
            return runOnDevice();
        }
        const Placeholder what = saysTruth(results) ? Placeholder::truth
            : traits_.sizedByValues                 ? Placeholder::size
                                                    : Placeholder::number;
        if (traits_.copies)
            leaveOnHost(destinationOf(arguments_), {known_, unknown_, assumptions_, std::nullopt, what});
        else if (assumptions_.placeholder || known_ == Known::some)
            countPlaceholder(what);
        else if (assumptions_.otherRanks)
            tellOfOtherRanks();
        for (c10::IValue& result : results)
            mapTensors(result, [&](const Tensor& tensor) { return toDevice(tensor); });
        stack_->resize(stack_->size() - arguments_.size());
        stack_->insert(stack_->end(), results.begin(), results.end());
    }

    /// Returns a tensor on the device for a result on the CPU. An op that writes returns the argument itself.
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
        runInside();
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
    Stack arguments_; ///< only if needed after the op has run on the device
    Known known_ = Known::nothing; ///< known part of the inputs
    Tensor unknown_; ///< flags of the unknown elements of the result; undefined: none
    Assumptions assumptions_; ///< of the values read, and of the result
};

thread_local bool KnownCall::inside = false;

} // namespace

void callWithKnownValues(const c10::OperatorHandle& op, Stack* stack)
{
    KnownCall(op, stack).run();
}

} // namespace headroom::sim
