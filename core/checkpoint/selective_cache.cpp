// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/checkpoint/selective_cache.h"

#include "core/device/simulated_allocator.h"
#include "core/record/shadow_save.h"

#include <utility>

namespace headroom {
namespace {

/// Whether a tensor is on the device. The device is the CPU if the CPU's memory is recorded (HostedMemory).
bool isOnDevice(const at::Tensor& tensor)
{
    return !tensor.is_cpu()
        || (tensor.has_storage()
            && sim::SimulatedAllocator::blockOf(
                *tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl()));
}

std::string called(const std::string& op, int index)
{
    return "op `" + op + "` with index " + std::to_string(index);
}

} // namespace

RegionOps::Op& RegionOps::of(const c10::OperatorHandle& op)
{
    const auto found = ops_.find(op);
    if (found != ops_.end())
        return found->second;
    const OpFacts facts = opFacts(op);
    Op entry;
    entry.name = facts.name;
    entry.ignored = (facts.flags & opSacIgnored) != 0;
    entry.changesArgument = (facts.flags & opInPlace) != 0;
    entry.kind = facts.kind;
    entry.arguments = facts.arguments;
    entry.returns = facts.returns;
    return ops_.emplace(op, std::move(entry)).first->second;
}

int SelectiveCache::number(const std::string& op, bool counted)
{
    Numbers& numbers = numbers_[op];
    numbers.ofCall.push_back(counted ? numbers.next++ : -1);
    return numbers.ofCall.back();
}

int SelectiveCache::numberOf(const std::string& op, std::size_t call) const
{
    const auto found = numbers_.find(op);
    const std::size_t known = found == numbers_.end() ? 0 : found->second.ofCall.size();
    if (call < known)
        return found->second.ofCall[call];
    return static_cast<int>(call - known) + (found == numbers_.end() ? 0 : found->second.next);
}

OpCounts SelectiveCache::counts() const
{
    OpCounts counts;
    for (const auto& [op, numbers] : numbers_)
        if (numbers.next > 0)
            counts.emplace(op, numbers.next);
    return counts;
}

void SelectiveCache::put(const std::string& op, int index, c10::ArrayRef<c10::IValue> results)
{
    Entry entry;
    for (c10::IValue result : results) {
        forEachTensor(result, [&](const at::Tensor& tensor) { entry.versions.push_back(tensor._version()); });
        mapTensors(result, [](const at::Tensor& tensor) { return detached(tensor, /*allowMetadataChange=*/true); });
        entry.results.push_back(std::move(result));
    }
    entries_.insert_or_assign({op, index}, std::move(entry));
}

Values SelectiveCache::take(const std::string& op, int index)
{
    const auto found = entries_.find({op, index});
    if (found == entries_.end()) {
        if (taken_.contains({op, index}))
            throw CheckpointError("a region with saved ops can go through backward once: the saved result of "
                                  + called(op, index) + " was used already");
        throw CheckpointError("the recomputation of a checkpointed region calls " + called(op, index)
                              + ", but the forward did not: a region must call the same ops each time");
    }
    Entry entry = std::move(found->second);
    entries_.erase(found);
    taken_[{op, index}] = true;
    auto version = entry.versions.begin();
    for (const c10::IValue& result : entry.results) {
        forEachTensor(result, [&](const at::Tensor& tensor) {
            if (tensor._version() != *version++)
                throw CheckpointError("the saved result of " + called(op, index)
                                      + " was changed in place after saving: recompute the op instead");
        });
    }
    return std::move(entry.results);
}

CachingOps::CachingOps(SavePolicy policy, CountedOps counted, std::shared_ptr<SelectiveCache> cache)
    : policy_(std::move(policy))
    , counted_(counted)
    , cache_(std::move(cache))
{
}

void CachingOps::call(const c10::OperatorHandle& op, torch::jit::Stack& stack, c10::function_ref<void()> run)
{
    RegionOps::Op& facts = ops_.of(op);
    if (RegionOps::skips(facts, stack)) {
        run();
        return;
    }
    bool counted = counted_ == CountedOps::all || anyTensor(stack, facts.arguments, isOnDevice);
    run();
    counted = counted || anyTensor(stack, facts.returns, isOnDevice);
    const int index = cache_->number(facts.name, counted);
    if (!counted || !policy_(facts.name, index))
        return;
    if (facts.changesArgument)
        throw CheckpointError(called(facts.name, index)
                              + " changes an argument, so the result cannot be saved; recompute the op");
    cache_->put(facts.name, index, c10::ArrayRef<c10::IValue>(stack).slice(stack.size() - facts.returns));
}

CachedOps::CachedOps(SavePolicy policy, std::shared_ptr<SelectiveCache> cache)
    : policy_(std::move(policy))
    , cache_(std::move(cache))
{
}

void CachedOps::call(const c10::OperatorHandle& op, torch::jit::Stack& stack, c10::function_ref<void()> run)
{
    RegionOps::Op& facts = ops_.of(op);
    const int index = RegionOps::skips(facts, stack) ? -1 : cache_->numberOf(facts.name, facts.calls++);
    if (index < 0 || !policy_(facts.name, index)) {
        run();
        return;
    }
    torch::jit::drop(stack, facts.arguments);
    for (c10::IValue& result : cache_->take(facts.name, index))
        stack.push_back(std::move(result));
}

} // namespace headroom
