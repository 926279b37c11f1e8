// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/device/deferred_fill.h"

#include "core/device/boxed_values.h"
#include "core/device/mersenne_twister.h"
#include "core/device/meta_call.h"
#include "core/device/op_traits.h"

#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/version.h>

#include <atomic>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

namespace headroom::sim {
namespace {

using at::Tensor;
using torch::jit::Stack;

/// Smaller tensors are filled at once: they cost little, and programs look at them.
constexpr std::int64_t smallestDeferred = std::int64_t{1} << 16;

/// A deferred op in place: the view of the storage that it writes, and its other arguments.
struct Step
{
    c10::OperatorHandle op;
    std::vector<std::int64_t> sizes;
    std::vector<std::int64_t> strides;
    std::int64_t offset = 0;
    caffe2::TypeMeta type;
    Stack arguments; ///< without the tensor
    std::optional<at::Generator> generator; ///< random ops: a copy from before the draws
};

struct Fill
{
    c10::weak_intrusive_ptr<c10::StorageImpl> storage; ///< keeps the address from being given to another one
    std::vector<Step> steps;
};

/// The deferred ops of all storages. Never destroyed: tensors may be read after main().
struct Fills
{
    std::atomic<bool> enabled{false};
    std::atomic<std::size_t> count{0};
    std::mutex mutex;
    std::unordered_map<const c10::StorageImpl*, Fill> byStorage;
    std::size_t nextCleaning = 1024;
};

Fills& fills()
{
    static auto* const fills = new Fills;
    return *fills;
}

c10::StorageImpl* storageOf(const Tensor& tensor)
{
    const bool ordinary = tensor.device().is_cpu() && tensor.layout() == at::kStrided && tensor.has_storage();
    return ordinary ? tensor.storage().unsafeGetStorageImpl() : nullptr;
}

bool isNumber(const c10::IValue& value)
{
    return !isListOfTensors(value)
        && (!value.isTensor() || (value.toTensor().defined() && value.toTensor().dim() == 0));
}

bool coversStorage(const Tensor& tensor)
{
    return tensor.is_contiguous() && tensor.nbytes() == tensor.storage().nbytes();
}

/// Returns how many random numbers the kernel draws (aten/src/ATen/native/cpu/DistributionTemplates.h): one for each
/// element, two for a double. normal_fill() draws the last sixteen again if the size is not a multiple of sixteen; from
/// torch 2.13 on it instead draws them separately for a reduced type.
std::int64_t draws(const OpTraits& traits, const Tensor& tensor)
{
    constexpr std::int64_t group = 16;
    constexpr bool fillsApart = TORCH_VERSION_MINOR >= 13;
    const std::int64_t rest = traits.fills == OpTraits::Fills::normal ? tensor.numel() % group : 0;
    const bool apart = fillsApart && at::isReducedFloatingType(tensor.scalar_type());
    const std::int64_t elements = tensor.numel() + (rest == 0 ? 0 : group - (apart ? rest : 0));
    return tensor.scalar_type() == at::kDouble ? 2 * elements : elements;
}

/// Returns a copy of the generator and advances the generator itself by `count` draws.
at::Generator takeDraws(at::Generator generator, std::int64_t count)
{
    const std::lock_guard lock(generator.mutex());
    at::Generator before = generator.clone();
    auto* state = at::check_generator<at::CPUGeneratorImpl>(generator);
    state->set_engine(afterDraws(state->engine(), static_cast<std::uint64_t>(count)));
    return before;
}

void run(c10::StorageImpl* storage, const Step& step)
{
    Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
        c10::Storage(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(storage)),
        c10::DispatchKeySet(c10::DispatchKey::CPU), step.type);
    tensor.unsafeGetTensorImpl()->set_sizes_and_strides(step.sizes, step.strides, step.offset);
    Stack stack{std::move(tensor)};
    stack.insert(stack.end(), step.arguments.begin(), step.arguments.end());
    if (step.generator)
        stack.back() = *step.generator;
    const c10::impl::ExcludeDispatchKeyGuard guard(keysAboveBackend());
    step.op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack);
}

void dropDead(Fills& all)
{
    std::erase_if(all.byStorage, [](const auto& entry) { return entry.second.storage.expired(); });
    all.nextCleaning = 2 * all.byStorage.size() + 1024;
}

/// Returns whether a random op can be deferred: the number of its draws must be known, and it must write the whole
/// storage, so that it replaces all ops deferred before.
bool canDraw(const OpTraits& traits, const Tensor& tensor, const Stack& stack)
{
    const std::size_t first = stack.size() - 4; // self, two numbers, generator
    const double low = stack[first + 1].toDouble();
    const double high = stack[first + 2].toDouble();
    const bool valid = traits.fills == OpTraits::Fills::normal ? high >= 0 : low <= high;
    return valid && coversStorage(tensor) && tensor.numel() >= smallestDeferred
        && at::isFloatingType(tensor.scalar_type());
}

std::optional<at::Generator> generatorOf(const c10::IValue& value)
{
    if (value.isNone())
        return at::detail::getDefaultCPUGenerator();
    return value.isGenerator() && value.toGenerator().device().is_cpu() ? std::optional(value.toGenerator())
                                                                        : std::nullopt;
}

} // namespace

bool deferFill(const c10::OperatorHandle& op, Stack* stack)
{
    Fills& all = fills();
    if (!all.enabled)
        return false;
    const OpTraits& traits = traitsOf(op);
    if (traits.fills == OpTraits::Fills::no)
        return false;
    const std::span<const c10::IValue> arguments = argumentsOf(op, std::as_const(*stack));
    const Tensor tensor = arguments.front().toTensor();
    c10::StorageImpl* storage = storageOf(tensor);
    if (!storage || !std::ranges::all_of(arguments.subspan(1), isNumber))
        return false;

    const std::lock_guard lock(all.mutex);
    const auto found = all.byStorage.find(storage);
    Step step{op,
              tensor.sizes().vec(),
              tensor.strides().vec(),
              tensor.storage_offset(),
              tensor.dtype(),
              Stack(arguments.begin() + 1, arguments.end()),
              std::nullopt};
    if (traits.fills != OpTraits::Fills::inPlace) {
        const auto generator = generatorOf(stack->back());
        if (!generator || !canDraw(traits, tensor, *stack))
            return false;
        step.generator = takeDraws(*generator, draws(traits, tensor));
    } else if (found == all.byStorage.end()) {
        return false;
    }
    if (found == all.byStorage.end()) {
        if (all.byStorage.size() >= all.nextCleaning)
            dropDead(all);
        all.byStorage.emplace(storage, Fill{tensor.storage().getWeakStorageImpl(), {std::move(step)}});
    } else {
        if (step.generator)
            found->second.steps.clear();
        found->second.steps.push_back(std::move(step));
    }
    all.count = all.byStorage.size();
    dropArguments(op, stack);
    stack->emplace_back(tensor);
    return true;
}

void makeValues(const Tensor& tensor)
{
    Fills& all = fills();
    c10::StorageImpl* storage = all.count > 0 ? storageOf(tensor) : nullptr;
    if (!storage)
        return;
    const std::lock_guard lock(all.mutex); // held during the draws: other threads may read the same tensor
    const auto found = all.byStorage.find(storage);
    if (found == all.byStorage.end())
        return;
    for (const Step& step : found->second.steps)
        run(storage, step);
    all.byStorage.erase(found);
    all.count = all.byStorage.size();
}

void makeArguments(const c10::OperatorHandle& op, const Stack& stack)
{
    if (fills().count == 0 || traitsOf(op).isView)
        return;
    for (const c10::IValue& argument : argumentsOf(op, stack))
        forEachTensor(argument, makeValues);
}

void enableDeferredFills()
{
    fills().enabled = true;
}

} // namespace headroom::sim
