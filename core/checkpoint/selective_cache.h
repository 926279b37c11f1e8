// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/record/interceptor.h"
#include "core/record/module_call.h"
#include "core/record/op_facts.h"

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace headroom {

/// A checkpoint that cannot do what it was asked for, or a region that did not do the same twice: one sentence.
class CheckpointError : public ModuleCallError
{
public:
    using ModuleCallError::ModuleCallError;
};

/// Whether an op of a region keeps its results: by its name ("aten.mm.default") and by how many of that name ran before
/// it in the region. SAC_IGNORED_OPS are not asked for.
using SavePolicy = std::function<bool(std::string_view op, int index)>;

/// How often ops ran, by name.
using OpCounts = std::map<std::string, int, std::less<>>;

/// Which ops have a number in a region.
enum class CountedOps {
    all,
    ofDevices, ///< those that take or make a tensor outside of the CPU: the ops of a recorded step
};

/// Names of ops and their facts, and how often each was called in one run of a region.
class RegionOps
{
public:
    struct Op
    {
        std::string name;
        bool ignored = false; ///< by selective checkpointing
        bool changesArgument = false;
        OpFacts::Kind kind = OpFacts::Kind::ordinary;
        std::size_t arguments = 0;
        std::size_t returns = 0;
        std::size_t calls = 0;
    };
    Op& of(const c10::OperatorHandle& op);
    /// Whether this call, about to run, has no number: whether it comes depends on more than the region.
    static bool skips(const Op& op, const torch::jit::Stack& stack)
    {
        return op.ignored || isAutocastCast(op.kind, stack, op.arguments);
    }

private:
    std::unordered_map<c10::OperatorHandle, Op> ops_;
};

/// The results of the ops that a region keeps, from its forward to its recomputation, and the numbers of all of them.
class SelectiveCache
{
public:
    /// Gives the next call of `op` its number; -1 when it has none. The recomputation makes the same calls.
    int number(const std::string& op, bool counted);
    /// Of the `call`-th call.
    int numberOf(const std::string& op, std::size_t call) const;
    OpCounts counts() const;

    void put(const std::string& op, int index, c10::ArrayRef<c10::IValue> results);
    /// Gives up its hold. Throws when the results are not there or were changed in place.
    Values take(const std::string& op, int index);

private:
    struct Entry
    {
        Values results; ///< without their autograd history
        std::vector<std::uint32_t> versions; ///< of the tensors among them, when they were put here
    };
    struct Numbers
    {
        std::vector<int> ofCall;
        int next = 0;
    };
    std::map<std::string, Numbers> numbers_; ///< by op
    std::map<std::pair<std::string, int>, Entry> entries_;
    std::map<std::pair<std::string, int>, bool> taken_;
};

/// Runs the ops of a region's forward and caches the results of those that the policy keeps.
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

/// In the recomputation: gives the cached results of the ops that the policy keeps, and runs the others.
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
