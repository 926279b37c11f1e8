// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/device/deferred_fill.h"

#include "core/device/boxed_values.h"
#include "core/device/known_storage.h"
#include "core/device/mersenne_twister.h"
#include "core/device/meta_call.h"
#include "core/device/op_traits.h"
#include "core/device/simulated_hooks.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/version.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

namespace headroom::sim {
namespace {

using at::Tensor;
using torch::jit::Stack;

/// Smaller tensors are filled at once: cheap, and often read by programs.
constexpr std::int64_t smallestDeferred = std::int64_t{1} << 16;

/// A deferred op: the view of the storage that the op writes, and the op's arguments. The arguments of an op in place
/// are without the tensor itself: a storage would keep itself alive.
struct Step
{
    std::uint64_t number; ///< in the order of the program
    c10::OperatorHandle op;
    std::vector<std::int64_t> sizes;
    std::vector<std::int64_t> strides;
    std::int64_t offset;
    caffe2::TypeMeta type;
    bool inPlace;
    Stack arguments;
    std::optional<at::Generator> generator; ///< random ops: a copy from before the draws
};

/// A deferred step of another storage that reads this storage.
struct Reader
{
    const c10::StorageImpl* storage;
    std::uint64_t number;
};

struct Fill
{
    c10::weak_intrusive_ptr<c10::StorageImpl> storage; ///< keeps the address from being given to another storage
    std::deque<Step> steps;
    std::deque<Reader> readers; ///< in the order of the program
    int depth = 0; ///< of the recursion in which the steps run
    bool saves = false; ///< whether the steps do more than to begin with zeros
    bool isExposed = false; ///< the program may read the memory at any time
};

/// The deferred ops of all storages. Never destroyed: tensors may be read after main().
struct Fills
{
    std::atomic<bool> enabled{false};
    std::atomic<std::size_t> count{0};
    std::mutex mutex;
    std::unordered_map<const c10::StorageImpl*, Fill> byStorage;
    std::size_t nextCleaning = 1024;
    std::uint64_t steps = 0; ///< since the start
};

Fills& fills()
{
    static auto* const fills = new Fills;
    return *fills;
}

c10::StorageImpl* storageImplOf(const Tensor& tensor)
{
    const bool ordinary = tensor.device().is_cpu() && tensor.layout() == at::kStrided && tensor.has_storage();
    return ordinary ? tensor.storage().unsafeGetStorageImpl() : nullptr;
}

bool coversStorage(const Tensor& tensor)
{
    return tensor.is_contiguous() && tensor.nbytes() == tensor.storage().nbytes();
}

bool holdsTensor(const c10::IValue& value)
{
    return value.isTensor() && value.toTensor().defined();
}

/// Returns how many random numbers the kernel draws (aten/src/ATen/native/cpu/DistributionTemplates.h): a single number
/// for each element, two for a double. normal_fill() draws the last sixteen numbers again if the size is not a multiple
/// of sixteen. From torch 2.13 on, normal_fill() instead draws these sixteen separately for a reduced type.
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

/// Keys that are excluded while a deferred op runs. The op runs in the middle of another op, so that modes of the other
/// op, such as FakeTensorMode, must not see it: a mode may read the same tensor, and would wait for the mutex forever.
c10::DispatchKeySet keysAboveCpu()
{
    using c10::DispatchKey;
    return keysAboveBackend() | c10::python_ks | c10::functorch_transforms_ks | c10::functorch_batched_ks
        | c10::autocast_dispatch_keyset
        | c10::DispatchKeySet({DispatchKey::PythonDispatcher, DispatchKey::PreDispatch, DispatchKey::Functionalize});
}

void compute(c10::intrusive_ptr<c10::StorageImpl> storage, const Step& step)
{
    const Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
        c10::Storage(std::move(storage)), c10::DispatchKeySet(c10::DispatchKey::CPU), step.type);
    tensor.unsafeGetTensorImpl()->set_sizes_and_strides(step.sizes, step.strides, step.offset);
    Stack stack;
    if (step.inPlace)
        stack.emplace_back(tensor);
    stack.insert(stack.end(), step.arguments.begin(), step.arguments.end());
    if (step.generator)
        stack.back() = *step.generator;
    const c10::impl::ExcludeDispatchKeyGuard guard(keysAboveCpu());
    step.op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack);
    if (!step.inPlace)
        tensor.copy_(stack.back().toTensor());
}

/// Runs deferred ops. A step runs after the steps that wrote its arguments, and before a later step writes them.
class Running
{
public:
    explicit Running(Fills& all)
        : all_(all)
    {
    }

    /// Runs the steps of a storage with numbers below `end`.
    void runSteps(const c10::StorageImpl* key, std::uint64_t end)
    {
        for (auto found = all_.byStorage.find(key);
             found != all_.byStorage.end() && !found->second.steps.empty() && found->second.steps.front().number < end;
             found = all_.byStorage.find(key)) {
            auto storage = found->second.storage.lock();
            if (!storage) {
                all_.byStorage.erase(found);
                return;
            }
            const Step step = std::move(found->second.steps.front());
            found->second.steps.pop_front();
            runReaders(key, step.number);
            for (const c10::IValue& argument : step.arguments) {
                if (!holdsTensor(argument) || argument.toTensor().dim() == 0)
                    continue;
                runSteps(storageImplOf(argument.toTensor()), step.number);
                read_.push_back(argument.toTensor());
            }
            compute(std::move(storage), step);
        }
    }

    /// Runs the steps with numbers below `end` that read a storage.
    void runReaders(const c10::StorageImpl* key, std::uint64_t end)
    {
        for (auto found = all_.byStorage.find(key); found != all_.byStorage.end() && !found->second.readers.empty()
             && found->second.readers.front().number < end;
             found = all_.byStorage.find(key)) {
            const Reader reader = found->second.readers.front();
            found->second.readers.pop_front();
            runSteps(reader.storage, reader.number + 1);
        }
    }

    /// Tensors that steps have read.
    std::vector<Tensor> takeRead() { return std::move(read_); }

private:
    Fills& all_;
    std::vector<Tensor> read_;
};

void dropDead(Fills& all)
{
    std::erase_if(all.byStorage, [](const auto& entry) { return entry.second.storage.expired(); });
    all.nextCleaning = 2 * all.byStorage.size() + 1024;
}

/// Returns whether a random op can be deferred: the number of draws must be known, and the op must write the whole
/// storage, so that all ops deferred before are replaced.
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

Fill& fillOf(Fills& all, const Tensor& tensor)
{
    return all.byStorage.try_emplace(storageImplOf(tensor), Fill{tensor.storage().getWeakStorageImpl(), {}, {}})
        .first->second;
}

bool isPending(const Fills& all, const Tensor& tensor)
{
    const auto found = all.byStorage.find(storageImplOf(tensor));
    return found != all.byStorage.end() && !found->second.steps.empty();
}

/// Returns whether deferring more saves the computation of this tensor.
bool isWorthWaiting(const Fills& all, const Tensor& tensor)
{
    const auto found = all.byStorage.find(storageImplOf(tensor));
    return isUnreadCopy(tensor)
        || (found != all.byStorage.end() && !found->second.steps.empty() && found->second.saves);
}

/// Returns whether only ops read and write a tensor's memory.
bool isOnlyForOps(const Fills& all, const Tensor& tensor)
{
    const auto found = all.byStorage.find(storageImplOf(tensor));
    return isOwnHostMemory(tensor.storage().data_ptr()) && (found == all.byStorage.end() || !found->second.isExposed);
}

/// Returns whether a value is no tensor of several elements, and has its final value.
bool isNumber(const Fills& all, const c10::IValue& value)
{
    if (!holdsTensor(value))
        return !isListOfTensors(value);
    const Tensor& tensor = value.toTensor();
    return tensor.dim() == 0 && storageImplOf(tensor) && !isPending(all, tensor) && !isUnreadCopy(tensor);
}

bool isPlainTensor(const Tensor& tensor)
{
    return storageImplOf(tensor) && tensor.numel() >= smallestDeferred && tensor.is_non_overlapping_and_dense()
        && at::isFloatingType(tensor.scalar_type()) && !tensor.is_neg();
}

/// Returns whether an elementwise op of optimizers can be deferred: all tensors are alike, so that no error can come to
/// light late, and one of them waits for values.
bool canDefer(const Fills& all, const OpTraits& traits, std::span<const c10::IValue> arguments)
{
    constexpr int deepest = 100;
    constexpr std::size_t mostStorages = 1 << 16;
    const Tensor& first = arguments.front().toTensor();
    if (!isPlainTensor(first) || !isOnlyForOps(all, first) || all.byStorage.size() >= mostStorages)
        return false;
    const bool inPlace = traits.fills == OpTraits::Fills::inPlace;
    bool waits = isWorthWaiting(all, first);
    for (const c10::IValue& value : arguments.subspan(1)) {
        if (value.isBool() ? !traits.copies : value.isComplexDouble())
            return false;
        if (isNumber(all, value)) {
            if (holdsTensor(value) && value.toTensor().dtype() != first.dtype()
                && !value.toTensor().unsafeGetTensorImpl()->is_wrapped_number())
                return false;
            continue;
        }
        if (!holdsTensor(value))
            return false;
        const Tensor& tensor = value.toTensor();
        if (!isPlainTensor(tensor) || tensor.dtype() != first.dtype() || tensor.sizes() != first.sizes()
            || (inPlace ? tensor.is_alias_of(first) : tensor.strides() != first.strides()))
            return false;
        if (!isOnlyForOps(all, tensor))
            return false;
        waits |= isWorthWaiting(all, tensor);
        const auto found = all.byStorage.find(storageImplOf(tensor));
        if (found != all.byStorage.end() && found->second.depth >= deepest)
            return false;
    }
    return waits;
}

/// Returns arguments that the program cannot change, with the same storages.
Stack argumentsForLater(std::span<const c10::IValue> arguments)
{
    Stack result(arguments.begin(), arguments.end());
    const c10::impl::ExcludeDispatchKeyGuard guard(keysAboveCpu());
    for (c10::IValue& value : result) {
        if (!holdsTensor(value) || value.toTensor().unsafeGetTensorImpl()->is_wrapped_number())
            continue;
        value = value.toTensor().dim() == 0 ? value.toTensor().clone() : value.toTensor().detach();
    }
    return result;
}

/// Adds a step that writes `tensor`. Steps that only begin with zeros, and change these by numbers, save little.
void addStep(Fills& all, const Tensor& tensor, Step step, bool replaces, bool saves)
{
    if (all.byStorage.size() >= all.nextCleaning)
        dropDead(all);
    int depth = 0;
    for (const c10::IValue& value : step.arguments) {
        if (!holdsTensor(value) || value.toTensor().dim() == 0)
            continue;
        Fill& input = fillOf(all, value.toTensor());
        input.readers.push_back({storageImplOf(tensor), step.number});
        depth = std::max(depth, input.depth + 1);
    }
    Fill& fill = fillOf(all, tensor);
    if (replaces && fill.readers.empty() && coversStorage(tensor)) {
        fill.steps.clear();
        fill.depth = 0;
        fill.saves = false;
    }
    fill.saves |= saves;
    fill.depth = std::max(fill.depth, depth);
    fill.steps.push_back(std::move(step));
    all.count = all.byStorage.size();
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
    if (!holdsTensor(arguments.front()) || !storageImplOf(arguments.front().toTensor()))
        return false;
    Tensor tensor = arguments.front().toTensor();
    const bool inPlace = traits.fills != OpTraits::Fills::newResult;
    const bool isRandom = inPlace && traits.fills != OpTraits::Fills::inPlace;
    {
        const std::lock_guard lock(all.mutex);
        if (inPlace && !isOnlyForOps(all, tensor))
            return false;
        std::optional<at::Generator> before;
        bool saves = true;
        if (isRandom) {
            const auto generator = generatorOf(stack->back());
            if (!generator || !canDraw(traits, tensor, *stack))
                return false;
            before = takeDraws(*generator, draws(traits, tensor));
        } else {
            const bool continues = inPlace && isPending(all, tensor)
                && (isWorthWaiting(all, tensor) || op.schema().name() == "aten::mul_") // zeros stay zeros
                && std::ranges::all_of(arguments.subspan(1), [&](const auto& value) { return isNumber(all, value); });
            const bool zeroes = inPlace && traits.overwritten != 0 && arguments.size() == 1;
            saves = !continues;
            if (zeroes && !continues && isPlainTensor(tensor) && coversStorage(tensor)) {
                if (!all.byStorage.contains(storageImplOf(tensor)))
                    zeroHostMemory(tensor); // for code that takes addresses without ops
                saves = false;
            } else if (!continues && !canDefer(all, traits, arguments)) {
                return false;
            }
        }
        if (!inPlace) {
            const c10::impl::ExcludeDispatchKeyGuard guard(keysAboveCpu());
            tensor = at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options());
        }
        Step step{all.steps++,
                  op,
                  tensor.sizes().vec(),
                  tensor.strides().vec(),
                  tensor.storage_offset(),
                  tensor.dtype(),
                  inPlace,
                  argumentsForLater(arguments.subspan(inPlace ? 1 : 0)),
                  std::move(before)};
        addStep(all, tensor, std::move(step), isRandom || traits.overwritten != 0, saves);
    }
    if (isRandom || traits.overwritten != 0)
        forget(tensor); // without the mutex, as in makeValues()
    dropArguments(op, stack);
    stack->emplace_back(std::move(tensor));
    return true;
}

void makeValues(const Tensor& tensor)
{
    Fills& all = fills();
    c10::StorageImpl* storage = all.count > 0 ? storageImplOf(tensor) : nullptr;
    if (!storage)
        return;
    std::vector<Tensor> read;
    {
        const std::lock_guard lock(all.mutex); // held during the draws: other threads may read the same tensor
        if (!all.byStorage.contains(storage))
            return;
        Running running(all);
        running.runSteps(storage, all.steps);
        running.runReaders(storage, all.steps);
        const auto done = all.byStorage.find(storage);
        if (done != all.byStorage.end() && !done->second.isExposed)
            all.byStorage.erase(done);
        all.count = all.byStorage.size();
        read = running.takeRead();
    }
    for (const Tensor& one : read) // without the mutex: a listener may wait for Python's lock
        readOnHost(one);
}

void exposeValues(const Tensor& tensor)
{
    makeValues(tensor);
    Fills& all = fills();
    if (!all.enabled || !storageImplOf(tensor) || tensor.storage().nbytes() < smallestDeferred)
        return;
    const std::lock_guard lock(all.mutex);
    if (all.byStorage.size() >= all.nextCleaning)
        dropDead(all);
    fillOf(all, tensor).isExposed = true;
    all.count = all.byStorage.size();
}

void makeArguments(const c10::OperatorHandle& op, const Stack& stack)
{
    if (fills().count == 0 || traitsOf(op).readsNothing)
        return;
    for (const c10::IValue& argument : argumentsOf(op, stack))
        forEachTensor(argument, makeValues);
}

void enableDeferredFills()
{
    fills().enabled = true;
}

} // namespace headroom::sim
