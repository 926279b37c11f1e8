// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/device/boxed_values.h"
#include "core/record/interceptor.h"
#include "core/record/module_call.h"
#include "core/record/op_facts.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace headroom {

/// The exception for a request that a checkpoint cannot fulfil, and for a region that does not repeat itself exactly.
/// The message is a sentence.
class CheckpointError : public ModuleCallError
{
public:
    using ModuleCallError::ModuleCallError;
};

/// Decides whether an op of a region saves its results. `op` is the op's name ("aten.mm.default"), `index` the number
/// of ops with this name that ran before in the region. Not called for SAC_IGNORED_OPS.
using SavePolicy = std::function<bool(std::string_view op, int index)>;

/// How often ops ran, by name.
using OpCounts = std::map<std::string, int, std::less<>>;

/// The ops that are numbered in a region.
enum class CountedOps {
    all,
    ofDevices, ///< ops with an argument or a result outside of the CPU: the ops of a recorded step
};

/// Returns whether holds(tensor) is true for a tensor in the last `count` values.
template <class Predicate>
bool anyTensor(const torch::jit::Stack& stack, std::size_t count, Predicate holds)
{
    return std::any_of(stack.end() - static_cast<std::ptrdiff_t>(count), stack.end(),
                       [&](const c10::IValue& value) { return !allTensors(value, std::not_fn(holds)); });
}

/// The facts about the ops of a run of a region, and how often each op was called.
class RegionOps
{
public:
    struct Op
    {
        std::string name;
        bool ignored = false; ///< by selective checkpointing
        bool changesArgument = false;
        OpFacts::OpClass kind = OpFacts::OpClass::ordinary;
        std::size_t arguments = 0;
        std::size_t returns = 0;
        std::size_t calls = 0;
    };
    Op& of(const c10::OperatorHandle& op);
    /// Returns whether the call that is about to run gets no number, as the call depends on more than the region.
    static bool skips(const Op& op, const torch::jit::Stack& stack)
    {
        return op.ignored || isAutocastCast(op.kind, stack, op.arguments);
    }

private:
    std::unordered_map<c10::OperatorHandle, Op> ops_;
};

/// Keeps the saved results of a region's ops from forward to the recomputation, and the numbers of all ops.
class SelectiveCache
{
public:
    /// Returns the number of the next call of `op`; -1 if `op` is not counted. The recomputation makes the same calls.
    int number(const std::string& op, bool counted);
    /// Returns the number of the `call`-th call of `op`.
    int numberOf(const std::string& op, std::size_t call) const;
    OpCounts counts() const;

    void put(const std::string& op, int index, c10::ArrayRef<c10::IValue> results);
    /// Returns and releases the results. Throws CheckpointError if the results are missing or were changed in
    /// place.
    Values take(const std::string& op, int index);

private:
    struct Entry
    {
        Values results; ///< without autograd history
        std::vector<std::uint32_t> versions; ///< versions of the results' tensors at put()
    };
    struct Numbers
    {
        std::vector<int> ofCall; ///< by call; -1: not counted
        int next = 0;
    };
    std::map<std::string, Numbers> numbers_; ///< by op
    std::map<std::pair<std::string, int>, Entry> entries_;
    std::map<std::pair<std::string, int>, bool> taken_;
};

/// Runs the ops of a region's forward, and caches the results that the policy saves.
class CachingOps final : public OpInterposer
{
public:
    CachingOps(SavePolicy policy, CountedOps counted, std::shared_ptr<SelectiveCache> cache);
    void call(const c10::OperatorHandle& op, torch::jit::Stack& stack, c10::function_ref<void()> run) override;

private:
    SavePolicy policy_;
    CountedOps counted_;
    std::shared_ptr<SelectiveCache> cache_;
    RegionOps ops_;
};

/// Runs the ops of a recomputation, or returns the results from the cache if the policy saves them.
class CachedOps final : public OpInterposer
{
public:
    CachedOps(SavePolicy policy, std::shared_ptr<SelectiveCache> cache);
    void call(const c10::OperatorHandle& op, torch::jit::Stack& stack, c10::function_ref<void()> run) override;

private:
    SavePolicy policy_;
    std::shared_ptr<SelectiveCache> cache_;
    RegionOps ops_;
};

} // namespace headroom
